#include "daemon/verifier.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

namespace gpurdma::daemon {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class verifier_test : public testing::Test {
 protected:
  ~verifier_test() override {
    for (auto* const w : {&loaders, &registrars, &closers}) {
      w->join();
    }
  }
  static buffer_version_ptr made(const std::string& name) {
    return load_version({.name = name, .size = 4096, .source = memory::byte_fill{std::byte{'a'}}}, 1, {});
  }

  boost::asio::io_context io;
  rdma::workers loaders{io, 2};
  rdma::workers registrars{io, 1};
  rdma::workers closers{io, 1};
  std::stop_source stop;
  registration_cache registrations{registrars, closers, isolation::principal, stop.get_token()};
  std::vector<verification> results;
  bool told = false;

  void check(const std::vector<buffer_version_ptr>& versions) {
    verify(loaders, registrations, versions, stop.get_token(), [this](const auto& r) {
      results = r;
      told = true;
    });
  }
};

TEST_F(verifier_test, checks_one_after_the_other_and_tells_of_all) {
  const auto damaged = made("b");
  *static_cast<std::byte*>(reinterpret_cast<void*>(damaged->memory->address())) = std::byte{'x'};
  const auto first = made("a");
  const auto last = made("c");
  check({first, damaged, last});
  io.run();
  ASSERT_EQ(results.size(), 3U);
  EXPECT_EQ(results[0].buffer, "a");
  EXPECT_EQ(results[0].why, "");
  EXPECT_EQ(results[1].why, "block 0 is WRONG");
  EXPECT_EQ(results[2].buffer, "c");
  EXPECT_EQ(results[2].why, "");
}

TEST_F(verifier_test, tells_at_once_where_there_is_nothing_to_check) {
  check({});
  EXPECT_TRUE(told);
}

TEST_F(verifier_test, nobody_takes_the_memory_that_is_being_checked_for_free) {
  const auto checked = made("a");
  check({checked});
  bool may_go = false;
  registrations.retire(checked, [&] {
    may_go = true;
    EXPECT_EQ(checked.use_count(), 1) << "the check still has it";
  });
  EXPECT_FALSE(may_go);
  io.run();
  EXPECT_TRUE(may_go);
  EXPECT_EQ(results.size(), 1U);
}

TEST_F(verifier_test, leaves_out_what_goes_before_its_turn) {
  const auto first = made("a");
  auto second = made("b");
  check({first, second});
  bool may_go = false;
  registrations.retire(second, [&] { may_go = true; });
  EXPECT_TRUE(may_go) << "only the first is being checked";
  second = nullptr;
  io.run();
  ASSERT_EQ(results.size(), 1U);
  EXPECT_EQ(results[0].buffer, "a");
}

TEST_F(verifier_test, says_nothing_once_the_server_stops) {
  const auto version = made("a");
  stop.request_stop();
  check({version});
  io.run();
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace gpurdma::daemon
