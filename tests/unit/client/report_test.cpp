#include "client/report.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cstdint>
#include <string>

namespace gpurdma::client {
namespace {

boost::json::value parsed_json(const options& asked, const outcome& of) {
  const auto text = json(asked, of);
  EXPECT_EQ(text.find('\n'), std::string::npos) << "one line for each result";
  return boost::json::parse(text);
}

TEST(summary, says_how_much_was_read_and_verified) {
  outcome of;
  of.bytes = of.verified = 4'096;
  EXPECT_EQ(summary(of), "read 4096 bytes, data OK");
  of.verified = 0;
  EXPECT_EQ(summary(of), "read 4096 bytes, not verified");
  of.verified = 4'000;
  EXPECT_EQ(summary(of), "read 4096 bytes, data OK (96 of them in partial blocks, not verified)");
}

TEST(table, aligns_its_columns) {
  outcome of;
  EXPECT_EQ(table(of), "NAME  BYTES  VERSION\n");
  of.buffers = {{"demo", 4'096, 1, false}, {"weights", 123, 7, true}};
  EXPECT_EQ(table(of),
            "NAME     BYTES  VERSION\n"
            "demo      4096  1\n"
            "weights    123  7  staged\n");
}

TEST(json, tells_of_a_read) {
  options asked;
  asked.buffer = "weights";
  outcome of;
  of.bytes = ~std::uint64_t{0};
  of.verified = 5;
  of.seconds = 0.25;
  of.peer = "[::1]:7471";
  of.version = 7;
  EXPECT_EQ(parsed_json(asked, of), boost::json::parse(R"({"status": 0, "peer": "[::1]:7471", "buffer": "weights",
      "version": 7, "bytes": 18446744073709551615, "bytes_verified": 5, "seconds": 0.25})"));
}

TEST(json, tells_of_a_list) {
  options asked;
  asked.list = true;
  outcome of;
  of.peer = "192.0.2.1:7471";
  EXPECT_EQ(parsed_json(asked, of), boost::json::parse(R"({"status": 0, "peer": "192.0.2.1:7471", "buffers": []})"));
  of.buffers = {{"demo", 4'096, 1, false}, {"weights", 123, 7, true}};
  EXPECT_EQ(parsed_json(asked, of).at("buffers"),
            boost::json::parse(R"([{"name": "demo", "bytes": 4096, "version": 1, "staged": false},
                                   {"name": "weights", "bytes": 123, "version": 7, "staged": true}])"));
}

TEST(json, tells_of_a_failure_whatever_its_sentence_holds) {
  outcome of;
  of.failed = failure{exit_status::refused, "no \"buffer\"\\\n\x01"};
  const auto value = parsed_json({}, of);
  EXPECT_EQ(value.at("status"), 3);
  EXPECT_EQ(value.at("error").as_string(), of.failed->what);
}

TEST(exit_status, has_the_documented_numbers) {
  EXPECT_EQ(static_cast<int>(exit_status::done), 0);
  EXPECT_EQ(static_cast<int>(exit_status::usage), 1);
  EXPECT_EQ(static_cast<int>(exit_status::cannot_connect), 2);
  EXPECT_EQ(static_cast<int>(exit_status::refused), 3);
  EXPECT_EQ(static_cast<int>(exit_status::transfer_failed), 4);
  EXPECT_EQ(static_cast<int>(exit_status::data_wrong), 5);
  EXPECT_EQ(static_cast<int>(exit_status::cannot_write), 6);
}

}  // namespace
}  // namespace gpurdma::client
