// A server that cannot start says why, and leaves nothing.

#include <cerrno>
#include <cstring>

#include "support.hpp"

namespace gpurdma::test {
namespace {

using fake_verbs::call;
using fake_verbs::host;
using testing::AnyOf;
using testing::HasSubstr;

class server_start : public over_fake_verbs {
 protected:
  /// What a server that must not start says.
  std::string complaint(const daemon::config& settings) {
    running_server server{fake, settings};
    server.stop();
    EXPECT_TRUE(server.failed());
    return server.thrown().empty() ? log() : server.thrown();
  }

  /// Fails one step after the other, until a start has no further step.
  void fail_each_step(const daemon::config& settings) {
    for (unsigned n = 1;; ++n) {
      fake.fail_step(host::server, n, ENOSPC);
      running_server server{fake, settings};
      const bool was_hit = !fake.failed_step().empty();
      if (!was_hit) {
        EXPECT_TRUE(server.running());
        EXPECT_GT(n, 9U);
        return;
      }
      SCOPED_TRACE("step " + std::to_string(n) + ", " + fake.failed_step());
      server.stop();
      EXPECT_TRUE(server.failed());
      EXPECT_THAT(server.thrown().empty() ? log() : server.thrown(), HasSubstr(std::strerror(ENOSPC)));
    }
  }
};

TEST_F(server_start, that_fails_at_any_step_names_the_cause_and_leaves_nothing) { fail_each_step(server_settings()); }

TEST_F(server_start, on_wildcards_that_fails_at_any_step_names_the_cause_and_leaves_nothing) {
  auto settings = server_settings();
  settings.listen = {rdma::endpoint::parse("0.0.0.0", port), rdma::endpoint::parse("::", port)};
  fail_each_step(settings);
}

TEST_F(server_start, with_several_buffers_fails_where_one_cannot_be_registered) {
  auto settings = server_settings();
  settings.buffers.push_back({.name = "others", .size = 4096, .source = memory::byte_fill{}});
  fake.fail(call::ibv_reg_mr, host::server, 2, EFAULT);
  // Each is registered as soon as it is loaded.
  EXPECT_THAT(complaint(settings), testing::AnyOf(HasSubstr("buffer others: cannot register 4096 bytes"),
                                                  HasSubstr("buffer numbers: cannot register 2101473 bytes")));
}

TEST_F(server_start, without_locked_memory_names_the_limit) {
  fake.fail(call::ibv_reg_mr, host::server, 1, ENOMEM);
  EXPECT_THAT(complaint(server_settings()), HasSubstr("Cannot allocate memory"));
}

TEST_F(server_start, without_a_device_says_so) {
  fake.fail(call::rdma_create_event_channel, host::server, 1, ENODEV);
  EXPECT_THAT(complaint(server_settings()), HasSubstr("this machine has no RDMA device"));
}

TEST_F(server_start, registers_each_buffer_once_for_reading_only) {
  { const running_server server{fake, server_settings()}; }
  const auto made = fake.registrations();
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].how, call::ibv_reg_mr);
  EXPECT_EQ(made[0].length, buffer_size);
  EXPECT_EQ(made[0].iova, made[0].address);
  EXPECT_EQ(made[0].access, unsigned{IBV_ACCESS_REMOTE_READ});
}

}  // namespace
}  // namespace gpurdma::test
