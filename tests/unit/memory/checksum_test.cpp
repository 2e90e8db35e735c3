#include "memory/checksum.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "memory/host_memory.hpp"

namespace gpurdma::memory {
namespace {

using bytes = std::vector<std::byte>;

bytes filled(std::size_t size, unsigned value) { return bytes(size, static_cast<std::byte>(value)); }

bytes random_bytes(std::size_t size) {
  std::mt19937 engine{static_cast<std::uint32_t>(size)};
  bytes b(size);
  std::ranges::generate(b, [&] { return static_cast<std::byte>(engine()); });
  return b;
}

/// CRC32C bit by bit, as its definition reads.
std::uint32_t reference(std::span<const std::byte> of) {
  std::uint32_t crc = ~std::uint32_t{0};
  for (const auto b : of) {
    crc ^= std::to_integer<std::uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82F63B78 : 0);
    }
  }
  return ~crc;
}

TEST(crc32c, has_the_known_values) {
  // RFC 3720, appendix B.4.
  EXPECT_EQ(crc32c(filled(32, 0)), 0x8A9136AA);
  EXPECT_EQ(crc32c(filled(32, 0xFF)), 0x62A8AB43);
  bytes ascending(32);
  std::ranges::generate(ascending, [n = 0]() mutable { return static_cast<std::byte>(n++); });
  EXPECT_EQ(crc32c(ascending), 0x46DD794E);
  std::ranges::reverse(ascending);
  EXPECT_EQ(crc32c(ascending), 0x113FDB5C);
  EXPECT_EQ(crc32c(std::as_bytes(std::span{std::string_view{"123456789"}})), 0xE3069283);
  EXPECT_EQ(crc32c({}), 0U);
}

TEST(crc32c, agrees_with_its_definition_at_every_length_and_alignment) {
  const auto data = random_bytes(400);
  for (std::size_t begin = 0; begin < 64; ++begin) {
    for (std::size_t size = 0; size <= 300; ++size) {
      const auto part = std::span{data}.subspan(begin, size);
      ASSERT_EQ(crc32c(part), reference(part)) << size << " bytes from " << begin;
    }
  }
}

TEST(crc32c, goes_on_from_what_came_before) {
  const auto data = random_bytes(1'000);
  const auto whole = reference(data);
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    const auto first = std::span{data}.first(cut);
    const auto rest = std::span{data}.subspan(cut);
    ASSERT_EQ(crc32c(rest, crc32c(first)), whole) << cut;
  }
}

TEST(crc32c, is_right_beyond_1_GiB) {
  // Never written to, so all of it is the kernel's one page of zeros.
  constexpr auto one_GiB = std::size_t{1} << 30U;
  const host_memory zeros{one_GiB + 4097};
  auto expected = crc32c(filled(4096, 0));
  for (std::uint64_t size = 4096; size < one_GiB; size *= 2) {
    expected = crc32c_combine(expected, expected, size);
  }
  expected = crc32c_combine(expected, crc32c(filled(4097, 0)), 4097);
  EXPECT_EQ(crc32c(zeros.bytes()), expected);
}

TEST(crc32c_of_repeated, agrees_with_bytes_that_are_there) {
  for (const std::size_t size : {0U, 1U, 4095U, 4096U, 4097U, 100'000U}) {
    EXPECT_EQ(crc32c_of_repeated(std::byte{'R'}, size), crc32c(filled(size, 'R'))) << size;
  }
}

TEST(block_count, counts_a_block_that_is_shorter) {
  EXPECT_EQ(block_count(0), 0U);
  EXPECT_EQ(block_count(1), 1U);
  EXPECT_EQ(block_count(checksum_block_size), 1U);
  EXPECT_EQ(block_count(checksum_block_size + 1), 2U);
  EXPECT_EQ(block_count(~std::uint64_t{0}), std::size_t{1} << 44U);
}

TEST(crc32c_combine, joins_any_two_parts) {
  const auto data = random_bytes(1'000);
  const auto whole = reference(data);
  for (std::size_t cut = 0; cut <= data.size(); ++cut) {
    const auto a = std::span{data}.first(cut);
    const auto b = std::span{data}.subspan(cut);
    ASSERT_EQ(crc32c_combine(crc32c(a), crc32c(b), b.size()), whole) << cut;
  }
}

TEST(crc32c_combine, joins_the_blocks_of_a_buffer_to_the_whole) {
  const auto data = random_bytes(3 * checksum_block_size + 12'345);
  std::uint32_t joined = 0;
  for (std::size_t at = 0; at < data.size(); at += checksum_block_size) {
    const auto block = std::span{data}.subspan(at, std::min(checksum_block_size, data.size() - at));
    joined = crc32c_combine(joined, crc32c(block), block.size());
  }
  EXPECT_EQ(joined, crc32c(data));
}

TEST(crc32c_combine, leaves_a_part_as_it_is_beside_nothing) {
  EXPECT_EQ(crc32c_combine(0x12345678, 0, 0), 0x12345678U);
  EXPECT_EQ(crc32c_combine(0, 0x12345678, 1'000), 0x12345678U);
  EXPECT_EQ(crc32c_combine(0, 0, 0), 0U);
}

TEST(crc32c_combine, is_associative_also_where_sizes_exceed_32_bits) {
  constexpr std::uint64_t sizes[] = {0, 1, 0xFFFF'FFFF, 0x1'0000'0000, 0x1'0000'0001, 0x7FFF'FFFF'FFFF'FFFF};
  for (const auto size_b : sizes) {
    for (const auto size_c : sizes) {
      const std::uint32_t a = 0xDEADBEEF;
      const std::uint32_t b = 0x01234567;
      const std::uint32_t c = 0x89ABCDEF;
      EXPECT_EQ(crc32c_combine(crc32c_combine(a, b, size_b), c, size_c),
                crc32c_combine(a, crc32c_combine(b, c, size_c), size_b + size_c))
          << size_b << ' ' << size_c;
    }
  }
}

std::string hex(std::span<const std::byte> b) {
  std::string text;
  for (const auto value : b) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[std::to_integer<unsigned>(value) >> 4U];
    text += digits[std::to_integer<unsigned>(value) & 15U];
  }
  return text;
}

TEST(content_digest, is_the_sha256_of_sizes_and_checksums_in_little_endian) {
  // Readers that resume compare it across versions of the server, so that it must stay what it is.
  EXPECT_EQ(hex(content_digest({.size = 1'048'577, .blocks = {0x01020304, 0xE3069283}})),
            "6b214e2c2a549a0c40f313d442409a224e1fffc1e376e6efba43301624342a19");
  EXPECT_EQ(hex(content_digest({})), "b7ef388fde387673cec0949520ca4ac836bcb8b2ac7e204fa8f0a4bd268259e9");
}

TEST(content_digest, tells_contents_apart) {
  const content_checksums some{.size = 2'000'000, .blocks = {1, 2}};
  EXPECT_EQ(content_digest(some), content_digest(content_checksums{some}));
  EXPECT_NE(content_digest(some), content_digest({.size = 2'000'001, .blocks = {1, 2}}));
  EXPECT_NE(content_digest(some), content_digest({.size = 2'000'000, .blocks = {2, 1}}));
  EXPECT_NE(content_digest(some), content_digest({.size = 2'000'000, .blocks = {1, 3}}));
  EXPECT_NE(content_digest(some), content_digest({.size = 2'000'000, .blocks = {1, 2, 0}}));
}

}  // namespace
}  // namespace gpurdma::memory
