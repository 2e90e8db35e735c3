#include "protocol/codec.hpp"

#include <gtest/gtest.h>

#include "support.hpp"

namespace gpurdma::protocol {
namespace {

using test::bytes;
using test::dice;
using test::examples;
using test::hex;
using test::put16;

constexpr auto max64 = ~std::uint64_t{0};
constexpr auto max32 = ~std::uint32_t{0};

/// Every message with each field at its least and at its greatest.
std::vector<message> at_their_bounds() {
  const std::string name(max_name_size, 'z');
  const std::string sentence(max_sentence_size, '~');
  const listing::entry longest{name, max64, max64, true};
  return {
      {0, open{"a", 0, 0}},
      {max32, open{name, max64, max64}},
      {0, lease{}},
      {max32, lease{max64, max64, max64, max64, max64, max32, max32, max32, true, test::filled_digest(0xFF)}},
      {0, get_checksums{0, 0, 1}},
      {max32, get_checksums{max64, max64, max_checksums_in_reply}},
      {0, checksums{0, {0}}},
      {max32, checksums{max64, std::vector<std::uint32_t>(max_checksums_in_reply, max32)}},
      {0, renew{0}},
      {max32, renew{max64}},
      {0, renewed{0, 0}},
      {max32, renewed{max64, max32}},
      {0, release{0, 0}},
      {max32, release{max64, max64}},
      {0, released{0}},
      {max32, released{max64}},
      {0, list{}},
      {max32, list{name}},
      {0, listing{}},
      {max32, listing{std::vector(max_buffers_in_listing, longest), true}},
      {0, error{errc::unspecified, ""}},
      {max32, error{errc::dropped_by_operator, sentence}},
      {0, ping{}},
      {max32, ping{}},
      {0, pong{}},
      {max32, pong{}},
      {0, notice{notice_kind::shutting_down, errc::unspecified, 0, ""}},
      {max32, notice{notice_kind::buffer_replaced, errc::version_replaced, max64, sentence}},
  };
}

bool is_request(const message& m) {
  return std::holds_alternative<open>(m.content) || std::holds_alternative<get_checksums>(m.content) ||
         std::holds_alternative<renew>(m.content) || std::holds_alternative<release>(m.content) ||
         std::holds_alternative<list>(m.content);
}

bool is_malformed(const bytes& b) {
  const auto decoded = decode(b);
  return !decoded && decoded.error() == errc::malformed_message;
}

/// What decodes is written back as it was, but for a code that this version does not know.
void expect_same_bytes_if_it_decodes(const bytes& b) {
  const auto decoded = decode(b);
  if (!decoded) {
    ASSERT_EQ(decoded.error(), errc::malformed_message);
    return;
  }
  auto expected = b;
  const auto* const e = std::get_if<error>(&decoded->content);
  const auto* const n = std::get_if<notice>(&decoded->content);
  if (e != nullptr && e->code == errc::unspecified) {
    put16(expected, 8, 1);
  } else if (n != nullptr && n->code == errc::unspecified) {
    put16(expected, 10, 1);
  }
  ASSERT_EQ(encode(*decoded), expected);
}

TEST(codec, has_the_documented_bytes) {
  for (const auto& e : examples()) {
    SCOPED_TRACE(e.hex);
    EXPECT_EQ(encode(e.m), hex(e.hex));
    EXPECT_EQ(decode(hex(e.hex)).value(), e.m);
  }
}

TEST(codec, brings_every_message_back_at_its_bounds) {
  for (const auto& m : at_their_bounds()) {
    const auto b = encode(m);
    SCOPED_TRACE(testing::PrintToString(b));
    EXPECT_EQ(decode(b).value(), m);
    EXPECT_LE(b.size(), is_request(m) ? max_request_size : max_reply_size);
  }
}

TEST(codec, refuses_every_message_cut_short_or_prolonged) {
  for (const auto& m : at_their_bounds()) {
    const auto whole = encode(m);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      auto cut = bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      EXPECT_TRUE(is_malformed(cut));
      if (size >= 8) {  // and with a length that says so
        put16(cut, 2, size);
        EXPECT_TRUE(is_malformed(cut)) << "of " << whole.size() << " bytes " << size;
      }
    }
    for (std::size_t more : {1U, 4U, 88U, 600U}) {
      auto longer = whole;
      longer.resize(whole.size() + more);
      EXPECT_TRUE(is_malformed(longer));
      put16(longer, 2, longer.size());
      EXPECT_TRUE(is_malformed(longer));
    }
  }
}

TEST(codec, refuses_a_length_field_that_lies) {
  for (const auto& e : examples()) {
    auto b = hex(e.hex);
    for (std::size_t length = 0; length <= 0xFFFF; ++length) {
      put16(b, 2, length);
      ASSERT_EQ(is_malformed(b), length != b.size()) << e.hex;
    }
  }
}

TEST(codec, refuses_an_unknown_type) {
  for (std::size_t type = 0; type <= 0xFFFF; ++type) {
    auto b = hex("00 00 08 00 01 00 00 00");
    put16(b, 0, type);
    ASSERT_EQ(is_malformed(b), type != 12 && type != 13) << type;
  }
}

TEST(codec, survives_every_corruption_of_one_byte) {
  for (const auto& e : examples()) {
    SCOPED_TRACE(e.hex);
    const auto whole = hex(e.hex);
    for (std::size_t at = 0; at < whole.size(); ++at) {
      for (unsigned value = 0; value < 256; ++value) {
        auto b = whole;
        b[at] = static_cast<std::byte>(value);
        ASSERT_NO_FATAL_FAILURE(expect_same_bytes_if_it_decodes(b)) << at << " " << value;
      }
    }
  }
}

TEST(codec, survives_random_bytes) {
  dice d{2};
  std::size_t decoded = 0;
  for (int i = 0; i < 100000; ++i) {
    auto b = d.some(d.below(600));
    if (b.size() >= 4) {
      put16(b, 0, d.below(16));
      put16(b, 2, b.size());
    }
    ASSERT_NO_FATAL_FAILURE(expect_same_bytes_if_it_decodes(b));
    decoded += decode(b) ? 1U : 0U;
  }
  EXPECT_GT(decoded, 0U);
}

TEST(codec, survives_many_corruptions_of_long_messages) {
  dice d{3};
  const auto messages = at_their_bounds();
  for (int i = 0; i < 50000; ++i) {
    auto b = encode(messages.at(d.below(messages.size())));
    for (auto times = d.below(4); times > 0; --times) {
      b.at(d.below(b.size())) ^= static_cast<std::byte>(1U << d.below(8));
    }
    ASSERT_NO_FATAL_FAILURE(expect_same_bytes_if_it_decodes(b));
  }
}

TEST(codec, refuses_reserved_bytes_and_undefined_flags) {
  struct field {
    std::string_view message;  ///< its first byte, as in the examples
    std::size_t offset;
    unsigned lowest_bit;  ///< the bits below it have a meaning
  };
  for (const auto& f : std::initializer_list<field>{{"02", 60, 1},
                                                    {"03", 28, 0},
                                                    {"04", 20, 0},
                                                    {"06", 20, 0},
                                                    {"0a", 12, 1},
                                                    {"0a", 96, 1},
                                                    {"0a", 100, 0},
                                                    {"0e", 12, 0}}) {
    const auto all = examples();
    const auto found = std::ranges::find_if(all, [&](const auto& e) { return e.hex.starts_with(f.message); });
    ASSERT_TRUE(found != all.end());
    for (unsigned bit = f.lowest_bit; bit < 32; ++bit) {
      auto b = hex(found->hex);
      b.at(f.offset + bit / 8) ^= static_cast<std::byte>(1U << bit % 8);
      EXPECT_TRUE(is_malformed(b)) << found->hex << " offset " << f.offset << " bit " << bit;
    }
  }
}

TEST(codec, knows_which_names_are_valid) {
  for (const auto* good : {"a", "0", "_", "demo", "A-Z.a_z-09", "a..", "_.hidden"}) {
    EXPECT_TRUE(is_valid_name(good)) << good;
  }
  EXPECT_TRUE(is_valid_name(std::string(64, 'a')));
  EXPECT_FALSE(is_valid_name(std::string(65, 'a')));
  for (const auto* bad : {"", ".", "..", ".a", "-a", "a b", "a/b", "a\n", "a\\", "a~", "\xc3\xa4", "a:b"}) {
    EXPECT_FALSE(is_valid_name(bad)) << bad;
  }
}

TEST(codec, refuses_every_character_that_a_name_may_not_hold) {
  for (unsigned c = 0; c < 256; ++c) {
    auto first = hex("09 00 48 00 01 00 00 00 61 61 00*62");
    first[8] = static_cast<std::byte>(c);
    const std::string name{static_cast<char>(c), 'a'};
    EXPECT_EQ(is_malformed(first), !is_valid_name(name)) << c;
    auto later = hex("09 00 48 00 01 00 00 00 61 61 00*62");
    later[9] = static_cast<std::byte>(c);  // 0 ends the name
    EXPECT_EQ(is_malformed(later), c != 0 && !is_valid_name(std::string{'a', static_cast<char>(c)})) << c;
  }
}

TEST(codec, refuses_a_name_with_a_nul_inside_or_none_at_all) {
  EXPECT_TRUE(is_malformed(hex("01 00 58 00 07 00 00 00 00*8 ff*8 64 00 6d 6f 00*60")));
  EXPECT_TRUE(is_malformed(hex("01 00 58 00 07 00 00 00 00*8 ff*8 64 00*62 01")));
  EXPECT_TRUE(is_malformed(hex("01 00 58 00 07 00 00 00 00*8 ff*8 00*64")));
  EXPECT_TRUE(is_malformed(hex("09 00 48 00 01 00 00 00 00 61 00*62")));
  EXPECT_TRUE(is_malformed(hex("0a 00 68 00 0b 00 00 00 01 00 00 00 00*4 00*64 00*24")));
}

TEST(codec, refuses_counts_out_of_range) {
  EXPECT_TRUE(is_malformed(hex("03 00 20 00 08 00 00 00 05 00*7 00*8 00 00 00 00 00*4")));
  EXPECT_TRUE(is_malformed(hex("03 00 20 00 08 00 00 00 05 00*7 00*8 79 00 00 00 00*4")));
  EXPECT_TRUE(is_malformed(hex("03 00 20 00 08 00 00 00 05 00*7 00*8 01 00 00 01 00*4")));
  EXPECT_TRUE(is_malformed(hex("04 00 18 00 08 00 00 00 00*8 00*4 00*4"))) << "no checksum";
  EXPECT_TRUE(is_malformed(hex("04 00 fc 01 08 00 00 00 00*8 79 00 00 00 00*4 00*484"))) << "121 checksums, 508 bytes";
  EXPECT_TRUE(is_malformed(hex("04 00 1c 00 08 00 00 00 00*8 02 00 00 00 00*4 00*4"))) << "one of two";
  EXPECT_TRUE(is_malformed(hex("04 00 1c 00 08 00 00 00 00*8 01 00 00 40 00*4 00*4"))) << "count x 4 wraps";
  EXPECT_TRUE(is_malformed(hex("0a 00 10 00 0b 00 00 00 00*4 01 00 00 00"))) << "more, after none";
  EXPECT_TRUE(is_malformed(hex("0a 00 10 00 0b 00 00 00 01 00 00 00 00*4"))) << "none of one";
  const auto six = encode({1, listing{std::vector<listing::entry>(6, {"a", 1, 1, false}), false}});
  EXPECT_TRUE(is_malformed(six));
}

TEST(codec, refuses_kinds_of_notice_that_do_not_exist) {
  for (const auto* kind : {"00 00", "04 00", "01 01"}) {
    EXPECT_TRUE(is_malformed(hex("0e 00 1a 00 00 00 00 00 " + std::string{kind} + " 16 00 00*4 00*8 00 00")));
  }
}

TEST(codec, refuses_sentences_that_are_not_printable_or_too_long) {
  for (unsigned c = 0; c < 256; ++c) {
    auto b = hex("0b 00 0e 00 07 00 00 00 23 00 02 00 6e 6f");
    b.back() = static_cast<std::byte>(c);
    EXPECT_EQ(is_malformed(b), c < 0x20 || c > 0x7E) << c;
  }
  EXPECT_FALSE(is_malformed(hex("0b 00 fc 00 07 00 00 00 23 00 f0 00 6e*240")));
  EXPECT_TRUE(is_malformed(hex("0b 00 fd 00 07 00 00 00 23 00 f1 00 6e*241")));
  EXPECT_TRUE(is_malformed(hex("0b 00 0e 00 07 00 00 00 23 00 03 00 6e 6f"))) << "longer than the message";
}

TEST(codec, cuts_and_cleans_the_sentences_that_it_writes) {
  const auto decoded = decode(encode({1, error{errc::unspecified, "\x1b[31m\x7f\xff\n" + std::string(300, 'x')}}));
  EXPECT_EQ(std::get<error>(decoded.value().content).sentence, "?[31m???" + std::string(232, 'x'));
}

TEST(codec, reads_an_unknown_code_as_unspecified) {
  const auto decoded = decode(hex("0b 00 0c 00 07 00 00 00 0f 27 00 00"));
  EXPECT_EQ(std::get<error>(decoded.value().content).code, errc::unspecified);
}

}  // namespace
}  // namespace gpurdma::protocol
