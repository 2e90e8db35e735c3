// Each step of a read fails, once or from then on, on the one side or on the other. The server goes on, the reader says
// what it was.

#include <cerrno>
#include <chrono>
#include <cstring>

#include "support.hpp"

namespace gpurdma::test {
namespace {

using fake_verbs::call;
using fake_verbs::host;
using testing::HasSubstr;
using testing::IsEmpty;

/// No failing step is answered by silence, so this is never waited for.
client::options patient_reader() {
  auto asked = reader_settings();
  asked.timeout = std::chrono::seconds{50};
  return asked;
}

class any_step : public over_fake_verbs {
 protected:
  /// Fails one step after the other of those that `at` makes for one read.
  void fail_each_step(const daemon::config& settings, host at) {
    running_server server{fake, settings};
    for (unsigned n = 1;; ++n) {
      fake.fail_step(at, n, ENOSPC);
      const auto result = read(fake, patient_reader());
      wait_for_clients_to_be_gone();
      const auto failed = fake.failed_step();
      if (failed.empty()) {
        expect_good(result);
        EXPECT_GT(n, 30U);
        break;
      }
      SCOPED_TRACE("step " + std::to_string(n) + ", " + failed);
      // Nobody is harmed by what fails once the reader has all.
      if (!result.good()) {
        expect_reported(result);
        if (at == host::client) {
          EXPECT_THAT(result.why(), HasSubstr(std::strerror(ENOSPC)));
        }
      }
      expect_good(read(fake));
      ASSERT_TRUE(server.running());
      ASSERT_THAT(fake.violations(), IsEmpty());
    }
    server.stop();
    EXPECT_FALSE(server.failed());
  }

  /// Lets a call fail from the first on, from the second on, …
  void fail_from_each_on(call which, host at) {
    SCOPED_TRACE(name_of(which));
    running_server server{fake, server_settings()};
    for (unsigned n = 1;; ++n) {
      SCOPED_TRACE("call " + std::to_string(n));
      const auto before = fake.calls(which, at);
      fake.fail(which, at, n, ENOSPC, fake_verbs::world::for_ever);
      const auto result = read(fake, patient_reader());
      wait_for_clients_to_be_gone();
      fake.fail(which, at, 0, 0);
      if (fake.calls(which, at) < before + n) {
        expect_good(result);
        break;
      }
      if (!result.good()) {
        expect_reported(result);
      }
      ASSERT_TRUE(server.running());
      ASSERT_THAT(fake.violations(), IsEmpty());
    }
    expect_good(read(fake));
  }
};

TEST_F(any_step, of_the_server_may_fail_and_it_goes_on_serving) { fail_each_step(server_settings(), host::server); }

TEST_F(any_step, of_a_server_that_isolates_leases_may_fail_and_it_goes_on_serving) {
  auto settings = server_settings();
  settings.keys = daemon::isolation::lease;
  fail_each_step(settings, host::server);
}

TEST_F(any_step, of_the_reader_may_fail_and_it_names_the_cause) { fail_each_step(server_settings(), host::client); }

TEST_F(any_step, of_the_server_may_fail_from_then_on_and_it_serves_again_when_it_works_again) {
  for (const auto which : {call::ibv_post_send, call::ibv_post_recv, call::ibv_modify_qp, call::ibv_req_notify_cq,
                           call::ibv_poll_cq, call::rdma_accept, call::rdma_disconnect}) {
    fail_from_each_on(which, host::server);
  }
}

TEST_F(any_step, of_the_reader_may_fail_from_then_on) {
  for (const auto which : {call::ibv_post_send, call::ibv_post_recv, call::ibv_modify_qp, call::ibv_req_notify_cq,
                           call::ibv_poll_cq, call::rdma_disconnect}) {
    fail_from_each_on(which, host::client);
  }
}

}  // namespace
}  // namespace gpurdma::test
