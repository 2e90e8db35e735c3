#include "daemon/event_limit.hpp"

#include <gtest/gtest.h>

#include <string>

namespace gpurdma::daemon {
namespace {

constexpr event_limit::clock::time_point start{std::chrono::hours{1}};

TEST(host_of, leaves_the_port_out) {
  EXPECT_EQ(host_of("192.0.2.1:40112"), "192.0.2.1");
  EXPECT_EQ(host_of("[2001:db8::7]:40112"), "[2001:db8::7]");
  EXPECT_EQ(host_of("unknown"), "unknown");
}

TEST(event_limit, lets_a_burst_through_and_then_one_per_interval_with_the_count_of_the_others) {
  event_limit limit;
  for (std::uint32_t i = 0; i < event_limit::burst; ++i) {
    EXPECT_EQ(limit.pass("a", start), 0U);
  }
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(limit.pass("a", start), std::nullopt);
  }
  EXPECT_EQ(limit.pass("a", start + event_limit::interval), 7U);
  EXPECT_EQ(limit.pass("a", start + event_limit::interval), std::nullopt);
  EXPECT_EQ(limit.pass("a", start + 2 * event_limit::interval), 1U);
}

TEST(event_limit, gives_the_whole_burst_back_after_silence_and_not_more) {
  event_limit limit;
  for (const auto now : {start, start + 1000 * event_limit::interval}) {
    for (std::uint32_t i = 0; i < event_limit::burst; ++i) {
      EXPECT_TRUE(limit.pass("a", now));
    }
    EXPECT_FALSE(limit.pass("a", now));
  }
}

TEST(event_limit, of_one_peer_does_not_silence_another) {
  event_limit limit;
  while (limit.pass("a", start)) {
  }
  EXPECT_EQ(limit.pass("b", start), 0U);
}

TEST(event_limit, remembers_the_peers_heard_last) {
  event_limit limit;
  while (limit.pass("loud", start)) {
  }
  for (std::size_t i = 0; i < 5 * event_limit::most_peers; ++i) {
    ASSERT_EQ(limit.pass("peer" + std::to_string(i), start), 0U);
    ASSERT_FALSE(limit.pass("loud", start)) << "heard just before, so not forgotten";
  }
  EXPECT_EQ(limit.peers(), event_limit::most_peers);
}

}  // namespace
}  // namespace gpurdma::daemon
