#include "rdma/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <system_error>

namespace gpurdma::rdma {
namespace {

using testing::HasSubstr;

TEST(error, reads_the_three_conventions) {
  errno = EAGAIN;
  EXPECT_EQ(last_error(), std::errc::resource_unavailable_try_again);
  EXPECT_EQ(check_errno(-1), std::errc::resource_unavailable_try_again);
  EXPECT_FALSE(check_errno(0)) << "errno is old where a call succeeded";
  EXPECT_EQ(check_number(ENOMEM), std::errc::not_enough_memory);
  EXPECT_FALSE(check_number(0));
}

TEST(error, throws_with_the_reason_and_the_circumstances) {
  try {
    fail(check_number(ENOMEM), "cannot register");
    FAIL() << "returned";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::not_enough_memory);
    EXPECT_THAT(e.what(), HasSubstr("cannot register: "));
  }
}

TEST(error, names_the_status_of_a_completion) {
  const auto error = make_error_code_of(IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(error.value(), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(error.category(), completion_category());
  EXPECT_STREQ(error.category().name(), "wc");
  EXPECT_EQ(error.message(), ibv_wc_status_str(IBV_WC_REM_ACCESS_ERR));
  EXPECT_FALSE(make_error_code_of(IBV_WC_SUCCESS)) << "success is no error";
}

TEST(error, has_a_sentence_of_its_own_for_every_connection_error) {
  std::set<std::string> sentences;
  for (int value = 1; value <= static_cast<int>(connection_error::closed); ++value) {
    const std::error_code error{static_cast<connection_error>(value)};
    EXPECT_TRUE(error);
    EXPECT_STREQ(error.category().name(), "cm");
    EXPECT_TRUE(sentences.insert(error.message()).second) << error.message();
    EXPECT_EQ(error.message().find("unknown"), std::string::npos) << value;
  }
  EXPECT_EQ(std::error_code(1'000, connection_category()).message(), "unknown connection error 1000");
}

TEST(error, never_takes_one_category_for_another) {
  EXPECT_NE(std::error_code{connection_error::unreachable}, make_error_code_of(IBV_WC_LOC_EEC_OP_ERR));
  EXPECT_EQ(static_cast<int>(connection_error::unreachable), IBV_WC_LOC_EEC_OP_ERR) << "the same number";
  EXPECT_NE(std::error_code{connection_error::address_not_resolved}, check_number(EPERM));
}

}  // namespace
}  // namespace gpurdma::rdma
