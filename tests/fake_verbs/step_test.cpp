// Each step of a read fails once, on the one side or on the other. The server goes on, the reader says what it was.

#include <cerrno>
#include <chrono>

#include "support.hpp"

namespace gpurdma::test {
namespace {

using client::exit_status;
using fake_verbs::call;
using fake_verbs::host;
using testing::IsEmpty;
using testing::Not;

class any_step : public over_fake_verbs {
 protected:
  /// Fails one step after the other of those that `at` makes for one read; `check` judges what came of it.
  template <typename Check>
  void fail_each_step(const daemon::config& settings, host at, Check check) {
    running_server server{fake, settings};
    for (unsigned n = 1;; ++n) {
      fake.fail_step(at, n, ENOSPC);
      const auto result = read(fake, patient_reader());
      // The reader is gone; the server finishes with it a little later.
      ASSERT_TRUE(fake.wait_until([&] { return fake.live(host::server, "connection id") == 1; }));
      const auto failed = fake.failed_step();
      if (failed.empty()) {
        expect_good(result);
        EXPECT_GT(n, 30U);
        break;
      }
      SCOPED_TRACE("step " + std::to_string(n) + ", " + failed);
      check(result, failed);
      expect_good(read(fake));
      ASSERT_TRUE(server.running());
      ASSERT_THAT(fake.violations(), IsEmpty());
    }
    server.stop();
    EXPECT_FALSE(server.failed());
  }

  /// No step is answered by silence, so this is never waited for.
  static client::options patient_reader() {
    auto asked = reader_settings();
    asked.timeout = std::chrono::seconds{20};
    return asked;
  }

  void expect_reported(const read_result& result) {
    EXPECT_THAT(result.why(), Not(IsEmpty()));
    EXPECT_FALSE(result.committed);
  }
};

TEST_F(any_step, of_the_server_may_fail_and_it_goes_on_serving) {
  fail_each_step(server_settings(), host::server, [&](const read_result& result, const std::string&) {
    // The reader is not harmed by what fails once it has all.
    if (!result.good()) {
      expect_reported(result);
    }
  });
}

TEST_F(any_step, of_a_server_that_isolates_leases_may_fail_and_it_goes_on_serving) {
  auto settings = server_settings();
  settings.keys = daemon::isolation::lease;
  fail_each_step(settings, host::server, [&](const read_result& result, const std::string&) {
    if (!result.good()) {
      expect_reported(result);
    }
  });
}

TEST_F(any_step, of_the_reader_may_fail_and_it_says_so) {
  fail_each_step(server_settings(), host::client, [&](const read_result& result, const std::string&) {
    if (!result.good()) {
      expect_reported(result);
    }
  });
}

}  // namespace
}  // namespace gpurdma::test
