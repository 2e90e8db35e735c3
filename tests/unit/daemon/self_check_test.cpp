#include "daemon/self_check.hpp"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <future>

namespace gpurdma::daemon {
namespace {

using namespace std::chrono_literals;

struct checked {
  boost::asio::io_context io;
  rdma::workers threads{io, 1};
  int healthy = 0;
  self_check check{io, 20ms, {{"test", threads}}, [this] { ++healthy; }};

  ~checked() { threads.join(); }
};

TEST(self_check, is_healthy_again_and_again_while_the_workers_answer) {
  checked c;
  EXPECT_EQ(c.healthy, 1);
  while (c.healthy < 4) {
    c.io.run_one();
  }
  c.check.stop();
  c.io.run();
}

TEST(self_check, is_not_healthy_while_the_workers_do_not_get_on) {
  checked c;
  std::promise<void> release;
  bool ended = false;
  c.threads.run([held = release.get_future().share()] { held.wait(); }, [&](const auto&) { ended = true; });
  testing::internal::CaptureStderr();
  // The probe of the first look was answered before the job began; that of the second is not.
  c.io.run_for(200ms);
  const auto while_held = c.healthy;
  EXPECT_LE(while_held, 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("self_check_failed"), std::string::npos);
  release.set_value();
  while (c.healthy == while_held) {
    c.io.run_one();
  }
  EXPECT_TRUE(ended);
  c.check.stop();
  c.io.run();
}

}  // namespace
}  // namespace gpurdma::daemon
