#include "client/read_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>

namespace gpurdma::client {
namespace {

constexpr auto max64 = ~std::uint64_t{0};

struct made_of {
  read_plan::range what;
  std::uint32_t chunk_size;
  std::uint32_t block_size;
};

/// Goes through the whole plan and expects of it all that its header promises.
void expect_sound(const made_of& p) {
  SCOPED_TRACE(testing::Message() << p.what.length << " bytes from " << p.what.offset << " of " << p.what.buffer_size
                                  << ", chunks of " << p.chunk_size << ", blocks of " << p.block_size);
  read_plan plan{p.what, p.chunk_size, p.block_size};
  const auto end = p.what.offset + p.what.length;
  const auto first_block = p.what.offset / p.block_size;
  const auto last_block = (end - 1) / p.block_size;
  EXPECT_EQ(plan.first_block(), first_block);
  EXPECT_EQ(plan.last_block(), last_block);
  // Block by block and only in the plan's own range, so that nothing here wraps around either.
  const auto bytes_in_block = [&](std::uint64_t block) {
    return std::min<std::uint64_t>(p.block_size, p.what.buffer_size - block * p.block_size);
  };

  auto position = p.what.offset;
  std::uint64_t read_of_block = 0;
  while (const auto c = plan.next()) {
    ASSERT_EQ(c->offset, position);
    ASSERT_GE(c->length, 1U);
    ASSERT_LE(c->length, p.chunk_size);
    ASSERT_LE(c->length, end - position);
    ASSERT_EQ(c->block, position / p.block_size);
    ASSERT_EQ((position + c->length - 1) / p.block_size, c->block) << "crosses a block";
    const auto in_block = position % p.block_size;
    ASSERT_EQ(c->begins_block, in_block == 0);
    ASSERT_EQ(c->ends_block, in_block + c->length == bytes_in_block(c->block));
    read_of_block = c->begins_block || position == p.what.offset ? c->length : read_of_block + c->length;
    position += c->length;
    ASSERT_EQ(plan.finished(), position == end);
    if (c->ends_block || position == end) {
      ASSERT_EQ(plan.covers_block(c->block), read_of_block == bytes_in_block(c->block)) << "block " << c->block;
    }
    // No chunk is shorter than it must be.
    ASSERT_TRUE(c->length == p.chunk_size || c->ends_block || position == end);
  }
  EXPECT_EQ(position, end);
  EXPECT_FALSE(plan.next());
  if (first_block > 0) {
    EXPECT_FALSE(plan.covers_block(first_block - 1));
  }
  if (last_block < (p.what.buffer_size - 1) / p.block_size) {
    EXPECT_FALSE(plan.covers_block(last_block + 1));
  }
}

TEST(read_plan, is_sound_for_every_small_range) {
  for (std::uint64_t buffer = 1; buffer <= 11; ++buffer) {
    for (std::uint64_t offset = 0; offset < buffer; ++offset) {
      for (std::uint64_t length = 1; length <= buffer - offset; ++length) {
        for (std::uint32_t chunk = 1; chunk <= 5; ++chunk) {
          for (std::uint32_t block = 1; block <= 5; ++block) {
            expect_sound({{offset, length, buffer}, chunk, block});
            if (testing::Test::HasFatalFailure()) {
              return;
            }
          }
        }
      }
    }
  }
}

TEST(read_plan, is_sound_for_sizes_as_they_occur) {
  std::mt19937_64 engine{11};
  for (int i = 0; i < 500; ++i) {
    const auto buffer = 1 + engine() % (std::uint64_t{1} << 32U);
    const auto offset = engine() % buffer;
    const auto length = 1 + engine() % std::min(buffer - offset, std::uint64_t{1} << 24U);
    expect_sound({{offset, length, buffer},
                  static_cast<std::uint32_t>(4096 + engine() % (1U << 20U)),
                  static_cast<std::uint32_t>(4096 + engine() % (1U << 22U))});
  }
}

TEST(read_plan, is_sound_at_the_end_of_what_64_bits_address) {
  for (const auto block : {4096U, 1U << 20U, 1U << 30U, 0xFFFF'FFFFU, 4097U}) {
    for (const auto chunk : {65'536U, 0xFFFF'FFFFU}) {
      for (const std::uint64_t length : {1U, 4095U, 4096U, 300'000U, 3U << 20U}) {
        expect_sound({{max64 - length, length, max64}, chunk, block});
        expect_sound({{max64 - length - 1, length, max64}, chunk, block});
        expect_sound({{max64 - length - 1, length, max64 - 1}, chunk, block});
      }
    }
  }
}

TEST(read_plan, covers_whole_blocks_only) {
  // Blocks of 10 bytes in a buffer of 35: the last one has 5.
  const read_plan all{{.offset = 0, .length = 35, .buffer_size = 35}, 4, 10};
  for (const std::uint64_t block : {0U, 1U, 2U, 3U}) {
    EXPECT_TRUE(all.covers_block(block)) << block;
  }
  const read_plan part{{.offset = 1, .length = 33, .buffer_size = 35}, 4, 10};
  EXPECT_FALSE(part.covers_block(0));
  EXPECT_TRUE(part.covers_block(1));
  EXPECT_TRUE(part.covers_block(2));
  EXPECT_FALSE(part.covers_block(3));
}

TEST(read_plan, makes_one_chunk_of_a_small_buffer) {
  read_plan plan{{.offset = 0, .length = 4096, .buffer_size = 4096}, 1U << 20U, 1U << 20U};
  const auto c = plan.next();
  ASSERT_TRUE(c);
  EXPECT_EQ(c->length, 4096U);
  EXPECT_TRUE(c->begins_block);
  EXPECT_TRUE(c->ends_block);
  EXPECT_TRUE(plan.finished());
}

}  // namespace
}  // namespace gpurdma::client
