#include "memory/staging.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <stop_token>
#include <system_error>
#include <thread>
#include <vector>

namespace gpurdma::memory {
namespace {

constexpr std::size_t piece = std::size_t{1} << 20U;
constexpr auto buffer_size = piece;

class staging : public testing::Test {
 protected:
  std::atomic<int> there{};  // buffers
  bool refuse = false;
  staging_pool pool{{.allocate =
                         [this](std::size_t size) {
                           if (refuse) {
                             throw std::system_error{std::make_error_code(std::errc::not_enough_memory)};
                           }
                           EXPECT_EQ(size, buffer_size);
                           ++there;
                           return static_cast<std::byte*>(std::malloc(size));
                         },
                     .release =
                         [this](std::byte* buffer) {
                           --there;
                           std::free(buffer);
                         }},
                    {.limit = 2 * buffer_size, .piece = piece}};
};

TEST_F(staging, keeps_to_its_limit) {
  auto* const a = pool.try_acquire();
  auto* const b = pool.acquire({});
  ASSERT_NE(a, nullptr);
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(pool.try_acquire(), nullptr);
  EXPECT_EQ(pool.pinned_bytes(), 2 * buffer_size);
  pool.give_back(a);
  EXPECT_EQ(pool.try_acquire(), a);
  pool.give_back(a);
  pool.give_back(b);
}

TEST_F(staging, always_has_one_buffer) {
  pool.configure({.limit = 0, .piece = piece});
  auto* const a = pool.try_acquire();
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(pool.try_acquire(), nullptr);
  pool.give_back(a);
}

TEST_F(staging, keeps_buffers_until_it_is_trimmed) {
  auto* const a = pool.try_acquire();
  auto* const b = pool.try_acquire();
  pool.give_back(a);
  EXPECT_EQ(there, 2);
  pool.trim();
  EXPECT_EQ(there, 1);
  EXPECT_EQ(pool.pinned_bytes(), buffer_size);
  EXPECT_EQ(pool.peak_bytes(), 2 * buffer_size);
  pool.give_back(b);
  pool.configure(pool.options());
  EXPECT_EQ(there, 0);
  EXPECT_EQ(pool.peak_bytes(), 0U);
}

TEST_F(staging, waits_for_a_buffer) {
  auto* const a = pool.try_acquire();
  auto* const b = pool.try_acquire();
  std::byte* got = nullptr;
  {
    const std::jthread waiter{[&] { got = pool.acquire({}); }};
    pool.give_back(a);
  }
  EXPECT_EQ(got, a);
  pool.give_back(a);
  pool.give_back(b);
}

TEST_F(staging, stops_waiting_when_asked_to) {
  auto* const a = pool.try_acquire();
  auto* const b = pool.try_acquire();
  auto* got = a;
  {
    std::jthread waiter{[&](const std::stop_token& stop) { got = pool.acquire(stop); }};
    waiter.request_stop();
  }
  EXPECT_EQ(got, nullptr);
  pool.give_back(a);
  pool.give_back(b);
}

TEST_F(staging, forgets_a_buffer_that_could_not_be_had) {
  refuse = true;
  EXPECT_THROW(static_cast<void>(pool.acquire({})), std::system_error);
  EXPECT_EQ(pool.pinned_bytes(), 0U);
  refuse = false;
  auto* const a = pool.acquire({});
  EXPECT_NE(a, nullptr);
  pool.give_back(a);
}

TEST(readers_for, leaves_threads_to_others) {
  EXPECT_EQ(readers_for(0), 2U);  // unknown
  EXPECT_EQ(readers_for(2), 2U);
  EXPECT_EQ(readers_for(8), 6U);
  EXPECT_EQ(readers_for(16), 12U);
  EXPECT_EQ(readers_for(192), 12U);
}

TEST_F(staging, is_shared_by_many_threads_in_turn) {
  std::vector<std::jthread> threads;
  for (int i = 0; i < 6; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 200; ++n) {
        auto* const one = pool.acquire({});
        auto* const more = pool.try_acquire();
        *one = std::byte{1};
        pool.give_back(one);
        if (more != nullptr) {
          pool.give_back(more);
        }
      }
    });
  }
  threads.clear();
  EXPECT_LE(there, 2);
}

}  // namespace
}  // namespace gpurdma::memory
