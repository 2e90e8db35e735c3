#include "memory/byte_size.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gpurdma::memory {
namespace {

constexpr auto max64 = ~std::uint64_t{0};

TEST(byte_size, knows_every_unit) {
  EXPECT_EQ(parse_byte_size("3"), 3U);
  EXPECT_EQ(parse_byte_size("3B"), 3U);
  EXPECT_EQ(parse_byte_size("3kB"), 3'000U);
  EXPECT_EQ(parse_byte_size("3MB"), 3'000'000U);
  EXPECT_EQ(parse_byte_size("3GB"), 3'000'000'000U);
  EXPECT_EQ(parse_byte_size("3TB"), 3'000'000'000'000U);
  EXPECT_EQ(parse_byte_size("3KiB"), 3'072U);
  EXPECT_EQ(parse_byte_size("3MiB"), 3'145'728U);
  EXPECT_EQ(parse_byte_size("3GiB"), 3'221'225'472U);
  EXPECT_EQ(parse_byte_size("3TiB"), 3'298'534'883'328U);
}

TEST(byte_size, takes_zero_and_leading_zeros) {
  EXPECT_EQ(parse_byte_size("0"), 0U);
  EXPECT_EQ(parse_byte_size("0TiB"), 0U);
  EXPECT_EQ(parse_byte_size("0010kB"), 10'000U);
}

TEST(byte_size, takes_what_just_fits_64_bits_and_no_more) {
  EXPECT_EQ(parse_byte_size("18446744073709551615"), max64);
  EXPECT_EQ(parse_byte_size("18446744073709551616"), std::nullopt);
  EXPECT_EQ(parse_byte_size("18446744073709551kB"), 18'446'744'073'709'551'000U);
  EXPECT_EQ(parse_byte_size("18446744073709552kB"), std::nullopt);
  EXPECT_EQ(parse_byte_size("16777215TiB"), max64 - (std::uint64_t{1} << 40U) + 1);
  EXPECT_EQ(parse_byte_size("16777216TiB"), std::nullopt);
  EXPECT_EQ(parse_byte_size("99999999999999999999999"), std::nullopt);
}

TEST(byte_size, refuses_everything_else) {
  for (const auto* const text :
       {"",    "B",   "KiB", "-1", "+1",   " 1",   "1 ",    "1 KiB", "1KiB ", "1.5GiB", "1e3",  "0x10",
        "1kb", "1KB", "1k",  "1K", "1mib", "1PiB", "1KiBB", "1B1",   "1,000", "4096\n", "four", "\xC2\xBD"}) {
    EXPECT_EQ(parse_byte_size(text), std::nullopt) << '"' << text << '"';
  }
  EXPECT_EQ(parse_byte_size({}), std::nullopt);
  EXPECT_EQ(parse_byte_size(std::string_view{"1\0", 2}), std::nullopt);
}

TEST(byte_size, is_written_for_people) {
  EXPECT_EQ(format_byte_size(0), "0 B");
  EXPECT_EQ(format_byte_size(1023), "1023 B");
  EXPECT_EQ(format_byte_size(4096), "4 KiB");
  EXPECT_EQ(format_byte_size(1536), "1.5 KiB");
  EXPECT_EQ(format_byte_size(std::uint64_t{3} << 29U), "1.5 GiB");
  EXPECT_EQ(format_byte_size(std::uint64_t{1} << 50U), "1 PiB");
  EXPECT_EQ(format_byte_size(max64), "16 EiB");
}

}  // namespace
}  // namespace gpurdma::memory
