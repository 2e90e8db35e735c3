#include "client/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace gpurdma::client {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;

/// What a command line, without the program's name, comes to.
struct parsed {
  std::optional<options> asked;
  int status = -1;
  std::string out;
  std::string err;
};

parsed parse(const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"gpurdma-read"};
  for (const auto& a : arguments) {
    argv.push_back(a.c_str());
  }
  parsed p;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  p.asked = parse_options(static_cast<int>(argv.size()), argv.data(), p.status);
  p.out = testing::internal::GetCapturedStdout();
  p.err = testing::internal::GetCapturedStderr();
  return p;
}

options good(const std::vector<std::string>& arguments) {
  const auto p = parse(arguments);
  EXPECT_TRUE(p.asked) << p.err;
  EXPECT_EQ(p.out + p.err, "");
  return p.asked.value_or(options{});
}

void expect_usage_error(const std::vector<std::string>& arguments, const std::string& words) {
  const auto p = parse(arguments);
  EXPECT_FALSE(p.asked) << testing::PrintToString(arguments);
  EXPECT_EQ(p.status, 1) << testing::PrintToString(arguments);
  EXPECT_THAT(p.err, HasSubstr(words));
  EXPECT_THAT(p.out, IsEmpty()) << "where the data would be";
}

TEST(target, is_a_host_a_port_and_a_buffer) {
  struct row {
    const char* text;
    const char* host;
    int port;
    const char* buffer;
  };
  const row rows[] = {
      {"gpu-node-1/weights", "gpu-node-1", 7471, "weights"},
      {"gpu-node-1:80/weights", "gpu-node-1", 80, "weights"},
      {"192.0.2.1:65535/a.b_c-D9", "192.0.2.1", 65535, "a.b_c-D9"},
      {"[2001:db8::7]/weights", "2001:db8::7", 7471, "weights"},
      {"[2001:db8::7]:1/weights", "2001:db8::7", 1, "weights"},
      {"[fe80::1%eth0]/weights", "fe80::1%eth0", 7471, "weights"},
      {"node", "node", 7471, ""},
      {"node:80", "node", 80, ""},
      {"[::1]", "::1", 7471, ""},
      {"[::1]:80", "::1", 80, ""},
  };
  for (const auto& r : rows) {
    const auto t = parse_target(r.text);
    ASSERT_TRUE(t) << r.text;
    EXPECT_EQ(t->host, r.host);
    EXPECT_EQ(t->port, r.port);
    EXPECT_EQ(t->buffer, r.buffer);
  }
}

TEST(target, is_nothing_else) {
  for (const std::string text : {"",
                                 "/",
                                 "/weights",
                                 ":7471/weights",
                                 "node/",
                                 "node:/weights",
                                 "node:",
                                 "node:0/a",
                                 "node:65536/a",
                                 "node:-1/a",
                                 "node:+1/a",
                                 "node:x/a",
                                 "node:80x/a",
                                 "node:80:81/a",
                                 "node/a/b",
                                 "node//a",
                                 "node/.a",
                                 "node/a b",
                                 "node/a\n",
                                 "2001:db8::7/weights",
                                 "::1",
                                 "[]",
                                 "[]/a",
                                 "[::1/a",
                                 "[::1]a",
                                 "[::1]a:80/b",
                                 "[::1]80/a",
                                 "[::1]]/a"}) {
    EXPECT_FALSE(parse_target(text)) << text;
  }
  EXPECT_TRUE(parse_target("node/" + std::string(64, 'a')));
  EXPECT_FALSE(parse_target("node/" + std::string(65, 'a')));
}

TEST(options, have_defaults) {
  const auto o = good({"node/weights"});
  EXPECT_EQ(o.host, "node");
  EXPECT_EQ(o.port, 7471);
  EXPECT_EQ(o.buffer, "weights");
  EXPECT_FALSE(o.list);
  EXPECT_EQ(o.offset, 0U);
  EXPECT_EQ(o.length, std::nullopt);
  EXPECT_EQ(o.output, std::nullopt);
  EXPECT_TRUE(o.verify);
  EXPECT_FALSE(o.json);
  EXPECT_FALSE(o.bench);
  EXPECT_EQ(o.depth, 16U);
  EXPECT_EQ(o.read_size, 1U << 20U);
  EXPECT_EQ(o.timeout, 10s);
}

TEST(options, of_a_read_into_a_gpu) {
  EXPECT_EQ(good({"node/weights"}).to_gpu, std::nullopt);
  EXPECT_EQ(good({"node/weights", "--to-gpu", "0"}).to_gpu, "0");
  EXPECT_EQ(good({"node/weights", "--to-gpu", "0000:17:00.0", "--bench"}).to_gpu, "0000:17:00.0");
  expect_usage_error({"node/weights", "--to-gpu", "0", "-o", "file"}, "--to-gpu reads into a GPU's memory alone");
  expect_usage_error({"node", "--to-gpu", "0", "--list"}, "--to-gpu reads into a GPU's memory alone");
}

TEST(options, of_a_bench) {
  EXPECT_EQ(good({"node/weights", "--bench"}).count, 1'000U);
  EXPECT_EQ(good({"node/weights", "--bench", "--count", "10000000"}).count, 10'000'000U);
  expect_usage_error({"node/weights", "--count", "5"}, "--bench");
  expect_usage_error({"node/weights", "--bench", "--count", "0"}, "--count");
  expect_usage_error({"node/weights", "--bench", "--count", "10000001"}, "--count");
  expect_usage_error({"node/weights", "--bench", "-o", "file"}, "--bench reads into memory alone");
  expect_usage_error({"node", "--bench", "--list"}, "--bench reads into memory alone");
}

TEST(options, are_taken_from_the_command_line) {
  const auto o = good({"[::1]:80/weights", "--offset", "1GiB", "--length", "4kB", "-o", "file", "--no-verify", "--json",
                       "--depth", "1024", "--size", "64MiB", "--timeout", "0.25"});
  EXPECT_EQ(o.host, "::1");
  EXPECT_EQ(o.port, 80);
  EXPECT_EQ(o.offset, std::uint64_t{1} << 30U);
  EXPECT_EQ(o.length, 4'000U);
  EXPECT_EQ(o.output, "file");
  EXPECT_FALSE(o.verify);
  EXPECT_TRUE(o.json);
  EXPECT_EQ(o.depth, 1'024U);
  EXPECT_EQ(o.read_size, 64U << 20U);
  EXPECT_EQ(o.timeout, 250ms);

  EXPECT_EQ(good({"--output=-", "node/weights"}).output, "-");
  EXPECT_TRUE(good({"node/weights", "--verify"}).verify);
  EXPECT_EQ(good({"node/weights", "--size", "4KiB", "--depth", "1"}).read_size, 4'096U);
  EXPECT_EQ(good({"node/weights", "--length", "18446744073709551615"}).length, ~std::uint64_t{0});
  EXPECT_TRUE(good({"--list", "node:80"}).list);
  EXPECT_TRUE(good({"--list", "--json", "node"}).json);
}

TEST(options, say_what_is_no_target) {
  expect_usage_error({"::1/weights"}, "'::1/weights' is no target; write HOST[:PORT]/BUFFER");
  expect_usage_error({"node:x/weights"}, "is no target");
  expect_usage_error({""}, "is no target");
}

TEST(options, say_what_is_no_size) {
  for (const auto* const option : {"--offset", "--length", "--size"}) {
    for (const auto* const size : {"", "x", "4K", "4 KiB", "1.5GiB", "0x10", "16777216TiB"}) {
      expect_usage_error({"node/a", option, size},
                         "'" + std::string{size} + "' is no size; write 4096, 4KiB, 4kB or 1GiB");
    }
    expect_usage_error({"node/a", option}, option);
  }
}

TEST(options, keep_to_their_ranges) {
  for (const auto* const chunk : {"0", "4095", "67108865", "4GiB", "4294971392"}) {
    expect_usage_error({"node/a", "--size", chunk}, "--size must be from 4KiB to 64MiB");
  }
  for (const auto* const depth : {"0", "1025", "-1", "many", "1.5", "4294967297"}) {
    expect_usage_error({"node/a", "--depth", depth}, "--depth");
  }
  for (const auto* const timeout : {"0", "0.05", "-1", "3601", "soon", "nan", "-nan", "inf"}) {
    expect_usage_error({"node/a", "--timeout", timeout}, "--timeout");
  }
}

TEST(options, refuse_what_does_not_go_together) {
  expect_usage_error({"--list", "node/weights"}, "--list lists all buffers: give HOST[:PORT] alone");
  expect_usage_error({"node"}, "which buffer? write HOST[:PORT]/BUFFER, or --list HOST[:PORT]");
  expect_usage_error({"node/a", "--json", "-o", "-"}, "--json and -o - both want standard output");
}

TEST(options, refuse_what_is_missing_unknown_or_said_twice) {
  expect_usage_error({}, "target");
  expect_usage_error({"node/a", "node/b"}, "node/b");
  expect_usage_error({"node/a", "--speed"}, "--speed");
  expect_usage_error({"node/a", "--offset", "1", "--offset", "2"}, "--offset");
  expect_usage_error({"node/a", "-o", ""}, "--output needs the name of a file, or -");
}

TEST(options, answer_help_and_version_on_standard_output_with_status_0) {
  for (const auto* const option : {"--help", "-h", "--version"}) {
    const auto p = parse({option});
    EXPECT_FALSE(p.asked);
    EXPECT_EQ(p.status, 0);
    EXPECT_THAT(p.out, HasSubstr("gpurdma-read"));
    EXPECT_EQ(p.err, "");
  }
}

}  // namespace
}  // namespace gpurdma::client
