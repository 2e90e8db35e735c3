#include "memory/owner_thread.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

namespace gpurdma::memory {
namespace {

using namespace std::chrono_literals;

TEST(owner_thread, does_all_on_one_thread_and_brings_back_results) {
  owner_thread owner;
  const auto id = owner.run([] { return std::this_thread::get_id(); });
  EXPECT_NE(id, std::this_thread::get_id());
  EXPECT_EQ(owner.run([] { return std::this_thread::get_id(); }), id);
  EXPECT_EQ(*owner.run([] { return std::make_unique<int>(7); }), 7);
}

TEST(owner_thread, brings_back_what_is_thrown_and_goes_on) {
  owner_thread owner;
  EXPECT_THROW(owner.run([] { throw std::runtime_error{"no"}; }), std::runtime_error);
  EXPECT_EQ(owner.run([] { return 1; }), 1);
}

TEST(owner_thread, serves_many_threads_one_after_the_other) {
  owner_thread owner;
  int count = 0;  // no lock: only the owner touches it
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 8; ++i) {
      callers.emplace_back([&] {
        for (int n = 0; n < 100; ++n) {
          owner.run([&] { ++count; });
        }
      });
    }
  }
  EXPECT_EQ(owner.run([&] { return count; }), 800);
}

TEST(owner_thread, waits_no_longer_than_asked_and_still_does_the_task) {
  owner_thread owner;
  auto gate = std::make_shared<std::promise<void>>();
  auto done = std::make_shared<std::promise<void>>();
  try {
    owner.run_within(1ms, [gate, done] {
      gate->get_future().wait();
      done->set_value();
    });
    FAIL() << "waited";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::timed_out);
  }
  gate->set_value();
  done->get_future().wait();
  EXPECT_EQ(owner.run_within(1min, [] { return 3; }), 3);
}

TEST(owner_thread, does_what_was_asked_for_before_it_goes) {
  auto gate = std::make_shared<std::promise<void>>();
  auto done = std::make_shared<std::promise<void>>();
  {
    owner_thread owner;
    EXPECT_THROW(owner.run_within(1ms, [future = gate->get_future().share()] { future.wait(); }), std::system_error);
    EXPECT_THROW(owner.run_within(1ms, [done] { done->set_value(); }), std::system_error);
    gate->set_value();
  }
  EXPECT_EQ(done->get_future().wait_for(0s), std::future_status::ready);
}

}  // namespace
}  // namespace gpurdma::memory
