#include "protocol/handshake.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace gpurdma::protocol {
namespace {

using test::bytes;
using test::dice;
using test::hex;
using test::padded;
using test::put16;

template <std::size_t N>
std::array<std::byte, N> filled(std::uint8_t value) {
  std::array<std::byte, N> a;
  a.fill(static_cast<std::byte>(value));
  return a;
}

const hello some_hello{.client_nonce = filled<16>(0xA0)};
const welcome some_welcome{.incarnation = 0x1122334455667788,
                           .session = filled<16>(0xB0),
                           .server_nonce = filled<16>(0xC0),
                           .credits = 8,
                           .silence_limit_ms = 30000};
const refusal some_refusal{.code = errc::too_many_clients, .sentence = "full"};

constexpr auto hello_hex = "67 52 44 4d 28 00 01 01 00*16 a0*16";
constexpr auto welcome_hex =
    "67 52 44 4d 3c 00 01 01 88 77 66 55 44 33 22 11 b0*16 c0*16 00 01 00 02 08 00 00 00 30 75 00 00";
constexpr auto refusal_hex = "67 52 44 4d 10 00 01 01 13 00 04 00 66 75 6c 6c";

/// The three structures as one, for what holds of all.
struct structure {
  const char* name;
  bytes encoded;
  std::size_t maximum;
  std::size_t fixed_size;  ///< without a sentence
  std::error_code (*decode_error)(std::span<const std::byte>);
};

template <auto Decode>
std::error_code error_of(std::span<const std::byte> b) {
  const auto decoded = Decode(b);
  return decoded ? std::error_code{} : decoded.error();
}

std::vector<structure> structures() {
  return {{"hello", hex(hello_hex), max_hello_size, 40, error_of<decode_hello>},
          {"welcome", hex(welcome_hex), max_welcome_size, 60, error_of<decode_welcome>},
          {"refusal", hex(refusal_hex), max_refusal_size, 12, error_of<decode_refusal>}};
}

TEST(handshake, has_the_documented_bytes) {
  EXPECT_EQ(encode(some_hello), hex(hello_hex));
  EXPECT_EQ(encode(some_welcome), hex(welcome_hex));
  EXPECT_EQ(encode(some_refusal), hex(refusal_hex));
}

TEST(handshake, comes_back_as_it_was_through_the_padding_of_rdma_cm) {
  EXPECT_EQ(decode_hello(padded(encode(some_hello), max_hello_size)).value(), some_hello);
  EXPECT_EQ(decode_welcome(padded(encode(some_welcome), max_welcome_size)).value(), some_welcome);
  EXPECT_EQ(decode_refusal(padded(encode(some_refusal), max_refusal_size)).value(), some_refusal);
}

TEST(handshake, comes_back_as_it_was_at_its_bounds) {
  const hello h{1, 255, filled<16>(0xFF), filled<16>(0xFF)};
  EXPECT_EQ(decode_hello(encode(h)).value(), h);
  const welcome w{1, ~std::uint64_t{0}, filled<16>(0xFF), filled<16>(0xFF), 0xFFFF, 512, 0xFFFF, ~std::uint32_t{0}};
  EXPECT_EQ(decode_welcome(encode(w)).value(), w);
  const refusal r{2, 255, errc::shutting_down, std::string(136, '~')};
  EXPECT_EQ(decode_refusal(encode(r)).value(), r);
  EXPECT_EQ(decode_refusal(encode(refusal{})).value(), refusal{});
}

TEST(handshake, fits_what_rdma_cm_carries) {
  EXPECT_EQ(max_hello_size, 56U);
  EXPECT_EQ(max_welcome_size, 196U);
  EXPECT_EQ(max_refusal_size, 148U);
  EXPECT_LE(encode(some_hello).size(), max_hello_size);
  EXPECT_LE(encode(some_welcome).size(), max_welcome_size);
  EXPECT_EQ(encode(refusal{.sentence = std::string(9999, 'x')}).size(), max_refusal_size);
}

TEST(handshake, cuts_and_cleans_a_sentence) {
  const auto decoded = decode_refusal(encode(refusal{.sentence = "a\x1b[2J\n\xc3\xa4" + std::string(200, 'x')}));
  EXPECT_EQ(decoded.value().sentence, "a?[2J???" + std::string(128, 'x'));
}

TEST(handshake, refuses_what_does_not_begin_with_the_magic) {
  for (const auto& s : structures()) {
    SCOPED_TRACE(s.name);
    EXPECT_EQ(s.decode_error({}), errc::wrong_magic);
    EXPECT_EQ(s.decode_error(bytes(s.maximum)), errc::wrong_magic);
    for (std::size_t i = 0; i < 4; ++i) {
      auto b = s.encoded;
      b[i] ^= std::byte{1};
      EXPECT_EQ(s.decode_error(b), errc::wrong_magic);
    }
  }
}

TEST(handshake, refuses_a_truncated_structure) {
  for (const auto& s : structures()) {
    SCOPED_TRACE(s.name);
    for (std::size_t size = 4; size < s.encoded.size(); ++size) {
      EXPECT_EQ(s.decode_error(std::span{s.encoded}.first(size)), errc::malformed_handshake) << size;
    }
  }
}

TEST(handshake, refuses_a_length_that_lies) {
  for (const auto& s : structures()) {
    SCOPED_TRACE(s.name);
    const auto arrived = padded(s.encoded, s.maximum);
    for (std::size_t length = 0; length <= 0xFFFF; ++length) {
      auto b = arrived;
      put16(b, 4, length);
      const bool holds_all = length >= s.encoded.size() && length <= s.maximum;
      ASSERT_EQ(!s.decode_error(b), holds_all) << length;
    }
  }
}

TEST(handshake, refuses_versions_that_are_zero_or_reversed) {
  for (const auto& s : structures()) {
    SCOPED_TRACE(s.name);
    for (const auto* versions : {"00 00", "00 01", "02 01", "ff fe"}) {
      auto b = s.encoded;
      std::ranges::copy(hex(versions), b.begin() + 6);
      EXPECT_EQ(s.decode_error(b), errc::malformed_handshake) << versions;
    }
  }
}

TEST(handshake, takes_the_longer_structure_of_a_later_version) {
  for (const auto& s : structures()) {
    SCOPED_TRACE(s.name);
    auto b = s.encoded;
    b.insert(b.end(), 8, std::byte{0x5A});
    put16(b, 4, b.size());
    EXPECT_FALSE(s.decode_error(padded(b, s.maximum)));
  }
}

TEST(handshake, ignores_what_follows_the_structure) {
  for (const auto& s : structures()) {
    auto b = s.encoded;
    b.resize(s.maximum, std::byte{0xFF});
    EXPECT_FALSE(s.decode_error(b)) << s.name;
  }
}

TEST(handshake, refuses_a_welcome_with_a_range_of_versions) {
  auto b = hex(welcome_hex);
  b[7] = std::byte{2};
  EXPECT_EQ(decode_welcome(b).error(), errc::malformed_handshake);
}

TEST(handshake, refuses_a_welcome_of_a_version_that_was_not_offered) {
  EXPECT_EQ(decode_welcome(encode(welcome{.version = 2})).error(), errc::no_common_version);
}

TEST(handshake, refuses_a_welcome_that_cannot_be_worked_with) {
  EXPECT_EQ(decode_welcome(encode(welcome{.credits = 0})).error(), errc::malformed_handshake);
  EXPECT_EQ(decode_welcome(encode(welcome{.max_request_size = 255})).error(), errc::malformed_handshake);
  EXPECT_EQ(decode_welcome(encode(welcome{.max_reply_size = 513})).error(), errc::malformed_handshake);
  auto reserved = hex(welcome_hex);
  reserved[54] = std::byte{1};
  EXPECT_EQ(decode_welcome(reserved).error(), errc::malformed_handshake);
}

TEST(handshake, refuses_a_sentence_that_is_too_long_or_not_printable) {
  auto b = hex(refusal_hex);
  b.back() = std::byte{0x0A};
  EXPECT_EQ(decode_refusal(b).error(), errc::malformed_handshake);
  bytes too_long = padded(hex(refusal_hex), 149);
  put16(too_long, 4, 149);
  put16(too_long, 10, 137);
  std::fill(too_long.begin() + 12, too_long.end(), std::byte{'x'});
  EXPECT_EQ(decode_refusal(too_long).error(), errc::malformed_handshake);
}

TEST(handshake, reads_an_unknown_code_as_unspecified) {
  auto b = hex(refusal_hex);
  put16(b, 8, 9999);
  EXPECT_EQ(decode_refusal(b).value().code, errc::unspecified);
}

TEST(handshake, knows_which_versions_it_speaks) {
  EXPECT_FALSE(check_versions(hello{}));
  EXPECT_FALSE(check_versions(hello{.lowest_version = 1, .highest_version = 255}));
  EXPECT_EQ(check_versions(hello{.lowest_version = 2, .highest_version = 3}), errc::no_common_version);
}

TEST(handshake, survives_any_bytes) {
  dice d{1};
  for (int i = 0; i < 20000; ++i) {
    for (const auto& s : structures()) {
      auto b = d.some(d.below(200));
      if (d.one_in(2)) {  // past the magic
        std::copy_n(s.encoded.begin(), std::min<std::size_t>(b.size(), 8), b.begin());
      }
      static_cast<void>(s.decode_error(b));
    }
  }
}

}  // namespace
}  // namespace gpurdma::protocol
