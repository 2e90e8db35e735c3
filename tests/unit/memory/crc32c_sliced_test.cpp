// What the GPU does to compute a CRC32C, done by the CPU: the same functions, thread after thread.

#include "memory/crc32c_sliced.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "memory/checksum.hpp"

namespace gpurdma::memory {
namespace {

std::vector<std::byte> random_bytes(std::size_t size) {
  std::mt19937 engine{static_cast<std::uint32_t>(size)};
  std::vector<std::byte> b(size);
  std::ranges::generate(b, [&] { return static_cast<std::byte>(engine()); });
  return b;
}

/// As the kernel reads it, but for bytes outside the block, which are random here: they must not count.
std::uint32_t word_at(std::span<const std::byte> block, const crc32c_sliced::layout& in, std::uint64_t offset) {
  std::uint32_t word = 0xA5C3'96F0;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto at = offset + i - in.lead;  // wraps around before the block
    if (offset + i >= in.lead && at < block.size()) {
      word &= ~(0xFFU << (8 * i));
      word |= std::to_integer<std::uint32_t>(block[at]) << (8 * i);
    }
  }
  return word & crc32c_sliced::mask_of(in, offset);
}

std::uint32_t as_the_gpu(std::span<const std::byte> block) {
  static constexpr auto products = crc32c_sliced::products_with_y();
  static constexpr auto distances = crc32c_sliced::distances();
  const auto address = std::bit_cast<std::uintptr_t>(block.data());
  const auto in = crc32c_sliced::lay_out(address, block.size());
  std::uint32_t sum = 0;
  for (unsigned t = 0; t < crc32c_sliced::threads; ++t) {
    crc32c_sliced::state state{};
    for (std::uint64_t row = 0; row < in.rows; ++row) {
      crc32c_sliced::step(state, word_at(block, in, row * crc32c_sliced::row_size + 4 * t));
    }
    sum ^= crc32c_sliced::contribution(state, products.entry, distances.entry[t]);
  }
  return crc32c_sliced::finisher{}.finish(sum, address, block.size());
}

TEST(crc32c_math, multiplies_polynomials) {
  using namespace crc32c_math;
  EXPECT_EQ(multiply(one, 0x12345678), 0x12345678U);
  EXPECT_EQ(multiply(0x12345678, one), 0x12345678U);
  EXPECT_EQ(multiply(1, one >> 1U), polynomial);  // x^31 · x
  EXPECT_EQ(multiply(0xDEADBEEF, multiply(0x01234567, 0x89ABCDEF)),
            multiply(multiply(0xDEADBEEF, 0x01234567), 0x89ABCDEF));
}

TEST(crc32c_math, knows_when_the_powers_of_x_repeat) {
  using namespace crc32c_math;
  EXPECT_EQ(power_of_x(0), one);
  EXPECT_EQ(power_of_x(31), 1U);
  EXPECT_EQ(power_of_x(32), polynomial);
  EXPECT_EQ(power_of_x(order_of_x), one);
  EXPECT_EQ(power_of_x(order_of_x + 5), power_of_x(5));
}

TEST(crc32c_math, takes_zeros_away_as_it_appends_them) {
  using namespace crc32c_math;
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1023}, std::uint64_t{1} << 32U,
                                    (std::uint64_t{1} << 63U) + 1, order_of_x, 8 * order_of_x + 3}) {
    EXPECT_EQ(multiply(appended_zeros(bytes), removed_zeros(bytes)), one) << bytes;
  }
  const std::vector<std::byte> zeros(1'000);
  EXPECT_EQ(~multiply(~crc32c({}), appended_zeros(1'000)), crc32c(zeros));
}

TEST(crc32c_sliced, y_is_a_root_of_the_polynomial) {
  auto sum = crc32c_math::power_of_x(32ULL * 8192);
  for (unsigned j = 0; j < 32; ++j) {
    sum ^= crc32c_sliced::has_power(j) ? crc32c_math::power_of_x(j * 8192ULL) : 0;
  }
  EXPECT_EQ(sum, 0U);
}

TEST(crc32c_sliced, agrees_at_every_short_length_and_alignment) {
  const auto data = random_bytes(600);
  for (std::size_t begin = 0; begin < 130; begin += begin < 20 ? 1 : 7) {
    for (std::size_t size = 0; size <= 70; ++size) {
      const auto part = std::span{data}.subspan(begin, size);
      ASSERT_EQ(as_the_gpu(part), crc32c(part)) << size << " bytes from " << begin;
    }
  }
}

TEST(crc32c_sliced, agrees_around_rows_and_their_multiples) {
  const auto data = random_bytes(40'000);
  for (const std::size_t rows : {1U, 2U, 7U, 8U, 9U, 31U, 32U, 33U}) {
    for (const std::size_t begin : {0U, 1U, 2U, 3U, 4U, 127U, 128U, 129U}) {
      for (const int beyond : {-129, -5, -1, 0, 1, 3, 4, 127}) {
        const auto size = static_cast<std::size_t>(static_cast<int>(rows * crc32c_sliced::row_size) + beyond);
        const auto part = std::span{data}.subspan(begin, size);
        ASSERT_EQ(as_the_gpu(part), crc32c(part)) << size << " bytes from " << begin;
      }
    }
  }
}

TEST(crc32c_sliced, agrees_on_whole_blocks) {
  const auto data = random_bytes(checksum_block_size + 64);
  for (const std::size_t begin : {0U, 1U, 32U}) {
    const auto part = std::span{data}.subspan(begin, checksum_block_size);
    EXPECT_EQ(as_the_gpu(part), crc32c(part)) << begin;
  }
}

TEST(crc32c_sliced, sees_every_bit_of_a_row) {
  std::vector<std::byte> row(crc32c_sliced::row_size);
  for (std::size_t bit = 0; bit < row.size() * 8; bit += 37) {
    row[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    ASSERT_EQ(as_the_gpu(row), crc32c(row)) << bit;
  }
}

TEST(crc32c_sliced, finishes_blocks_of_any_size_in_any_order) {
  const auto data = random_bytes(3'000);
  crc32c_sliced::finisher reused;
  // The sum over a block is its CRC without inversions, times the zeros after it.
  const auto finish = [&](std::size_t size) {
    const auto rows = crc32c_sliced::lay_out(0, size);
    const auto part = std::span{data}.first(size);
    const auto raw = crc32c(part) ^ ~crc32c_math::multiply(~0U, crc32c_math::appended_zeros(size));
    const auto padded =
        crc32c_math::multiply(raw, crc32c_math::appended_zeros(rows.rows * crc32c_sliced::row_size - size));
    EXPECT_EQ(reused.finish(padded, 0, size), crc32c(part)) << size;
  };
  for (const std::size_t size : {0U, 1'024U, 1'024U, 1U, 2'048U, 0U, 1'025U, 1'024U, 1'023U}) {
    finish(size);
  }
}

}  // namespace
}  // namespace gpurdma::memory
