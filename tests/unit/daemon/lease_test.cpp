#include "daemon/lease.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace gpurdma::daemon {
namespace {

constexpr auto max64 = ~std::uint64_t{0};

TEST(is_range_of, takes_every_part_that_is_not_empty) {
  EXPECT_TRUE(is_range_of(0, 10, 10));
  EXPECT_TRUE(is_range_of(9, 1, 10));
  EXPECT_TRUE(is_range_of(3, 4, 10));
  EXPECT_TRUE(is_range_of(0, max64, max64));
  EXPECT_TRUE(is_range_of(max64 - 1, 1, max64));
}

TEST(is_range_of, refuses_what_is_empty_or_goes_past_the_end) {
  EXPECT_FALSE(is_range_of(0, 0, 10));
  EXPECT_FALSE(is_range_of(0, 11, 10));
  EXPECT_FALSE(is_range_of(9, 2, 10));
  EXPECT_FALSE(is_range_of(10, 1, 10));
  EXPECT_FALSE(is_range_of(10, 0, 10));
  EXPECT_FALSE(is_range_of(0, 1, 0));
  EXPECT_FALSE(is_range_of(0, 0, 0));
}

TEST(is_range_of, is_not_deceived_by_sums_that_wrap_around) {
  EXPECT_FALSE(is_range_of(5, max64, 10));
  EXPECT_FALSE(is_range_of(5, max64 - 4, 10)) << "the sum is 0";
  EXPECT_FALSE(is_range_of(max64, 1, 10)) << "the sum is 0";
  EXPECT_FALSE(is_range_of(max64, 5, 10)) << "the sum is 4";
  EXPECT_FALSE(is_range_of(max64, max64, 10));
  EXPECT_FALSE(is_range_of(max64, max64, max64));
  EXPECT_FALSE(is_range_of(1, max64, max64));
}

TEST(is_range_of, agrees_with_arithmetic_that_cannot_wrap) {
  for (std::uint64_t size = 0; size < 12; ++size) {
    for (std::uint64_t offset = 0; offset < 14; ++offset) {
      for (std::uint64_t length = 0; length < 14; ++length) {
        EXPECT_EQ(is_range_of(offset, length, size), length > 0 && offset + length <= size);
      }
    }
  }
}

}  // namespace
}  // namespace gpurdma::daemon
