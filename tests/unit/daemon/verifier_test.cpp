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
  check({made("a"), damaged, made("c")});
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

TEST_F(verifier_test, nobody_frees_a_version_that_is_yet_to_be_checked) {
  const auto first = made("a");
  const auto second = made("b");
  check({first, second});
  bool may_go = false;
  registrations.retire(second, [&] {
    may_go = true;
    EXPECT_EQ(second.use_count(), 1) << "the check still has it";
  });
  EXPECT_FALSE(may_go);
  io.run();
  EXPECT_TRUE(may_go);
  EXPECT_EQ(results.size(), 2U);
}

TEST_F(verifier_test, says_nothing_once_the_server_stops) {
  stop.request_stop();
  check({made("a")});
  io.run();
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace gpurdma::daemon
