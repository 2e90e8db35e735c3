#include "client/report.hpp"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "client/bench.hpp"

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
  of.seconds_to_lease = 0.5;
  of.peer = "[::1]:7471";
  of.version = 7;
  EXPECT_EQ(parsed_json(asked, of), boost::json::parse(R"({"status": 0, "peer": "[::1]:7471", "buffer": "weights",
      "version": 7, "bytes": 18446744073709551615, "bytes_verified": 5, "seconds": 0.25, "seconds_to_lease": 0.5})"));
}

TEST(bench, is_told_to_people_and_scripts) {
  options asked;
  asked.buffer = "weights";
  asked.bench = true;
  outcome of;
  of.bytes = 2U << 20U;
  of.seconds = 0.5;
  of.seconds_to_lease = 0.0625;
  of.bench = bench_figures{
      .reads = 2, .read_size = 1U << 20U, .depth = 1, .latency_min = 1.5, .latency_median = 2.5, .latency_p99 = 1e6};
  EXPECT_EQ(summary(of),
            "2 READs of 1048576 bytes, 1 at once: 4.0 MiB/s; latency 2.5 us median, 1.5 least, 99 % within 1000000.0; "
            "first lease after 62.5 ms");
  EXPECT_EQ(parsed_json(asked, of), boost::json::parse(R"({"status": 0, "peer": "", "buffer": "weights", "version": 0,
      "bytes": 2097152, "seconds": 0.5, "seconds_to_lease": 0.0625, "reads": 2, "read_size": 1048576, "depth": 1,
      "latency_us": {"min": 1.5, "median": 2.5, "p99": 1e6}})"));
}

TEST(bench, figures_are_those_of_the_latencies_in_order) {
  std::vector<float> latencies(1'000);
  std::iota(latencies.rbegin(), latencies.rend(), 1.0F);
  const auto figures = figures_of(latencies);
  EXPECT_EQ(figures.reads, 1'000U);
  EXPECT_EQ(figures.latency_min, 1);
  EXPECT_EQ(figures.latency_median, 500);
  EXPECT_EQ(figures.latency_p99, 990);
  EXPECT_EQ(figures_of({7}).latency_p99, 7);
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
