#include "daemon/logging.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <set>
#include <string>

namespace gpurdma::daemon {
namespace {

using testing::ElementsAre;

TEST(journal_fields, are_those_of_the_event_and_of_its_fields) {
  const std::vector<field> fields{{"client", 7}, {"why", "two\nlines"}, {"leases_held", 0}};
  EXPECT_THAT(journal_fields({log_level::warning, "client_lost", "00112233445566778899aabbccddeeff", "a text", fields}),
              ElementsAre("MESSAGE=a text", "PRIORITY=4", "MESSAGE_ID=00112233445566778899aabbccddeeff",
                          "SYSLOG_IDENTIFIER=gpurdma-server", "GPURDMA_EVENT=client_lost", "GPURDMA_CLIENT=7",
                          "GPURDMA_WHY=two\nlines", "GPURDMA_LEASES_HELD=0"));
}

TEST(journal_fields, say_the_priority_as_syslog_does) {
  const std::vector<field> none;
  const auto priority = [&](log_level level) { return journal_fields({level, "n", "i", "t", none}).at(1); };
  EXPECT_EQ(priority(log_level::debug), "PRIORITY=7");
  EXPECT_EQ(priority(log_level::info), "PRIORITY=6");
  EXPECT_EQ(priority(log_level::warning), "PRIORITY=4");
  EXPECT_EQ(priority(log_level::error), "PRIORITY=3");
}

TEST(is_journal, compares_device_and_inode) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  struct stat status {};
  ASSERT_EQ(fstat(ends[1], &status), 0);
  const auto name = std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
  EXPECT_TRUE(is_journal(ends[1], name.c_str()));
  EXPECT_FALSE(is_journal(ends[1], nullptr));
  EXPECT_FALSE(is_journal(ends[1], ""));
  EXPECT_FALSE(is_journal(ends[1], (name + "0").c_str()));
  EXPECT_FALSE(is_journal(STDERR_FILENO, name.c_str()));
  close(ends[0]);
  close(ends[1]);
  EXPECT_FALSE(is_journal(ends[1], name.c_str()));
}

}  // namespace
}  // namespace gpurdma::daemon
