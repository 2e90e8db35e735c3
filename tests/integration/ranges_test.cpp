// Any range of any buffer, always the right bytes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/integration/support/peer.hpp"
#include "tests/integration/support/process.hpp"

namespace gpurdma::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t mebibyte = std::uint64_t{1} << 20U;
constexpr std::uint64_t odd_size = 20 * mebibyte + 12'345;  // above rxe's longest message, 8 MiB, and not whole blocks
constexpr std::uint64_t huge_size = (std::uint64_t{4} << 30U) + 4096;  // its offsets need more than 32 bits

/// What `fill: counting` puts at [offset, offset + length).
std::string counting(std::uint64_t offset, std::uint64_t length) {
  std::string bytes(length, '\0');
  for (std::uint64_t i = 0; i < length; ++i) {
    const auto position = offset + i;
    bytes[i] = static_cast<char>((position / 8) >> (8 * (position % 8)));
  }
  return bytes;
}

class Ranges : public testing::Test {
 protected:
  server_process server{"buffers:\n  - { name: odd, memory: host, size: " + std::to_string(odd_size) +
                        ", fill: counting }\n  - { name: small, memory: host, size: 4KiB, fill: \"R\" }\n"};

  static void expect_range(const std::string& buffer, std::uint64_t offset, std::uint64_t length,
                           std::vector<std::string> options = {}) {
    SCOPED_TRACE(std::to_string(offset) + " + " + std::to_string(length));
    options.insert(options.end(), {"--offset", std::to_string(offset), "--length", std::to_string(length), "-o", "-"});
    const auto read = read_buffer(self_address() + "/" + buffer, options);
    EXPECT_EQ(read.status, 0) << read.err;
    // Not EXPECT_EQ, which would print megabytes.
    EXPECT_TRUE(read.out == counting(offset, length));
  }

  static void expect_refused(const std::string& buffer, const std::string& offset, const std::string& length) {
    SCOPED_TRACE(offset + " + " + length);
    const auto read = read_buffer(self_address() + "/" + buffer, {"--offset", offset, "--length", length});
    EXPECT_EQ(read.status, 3);
    EXPECT_THAT(read.err, HasSubstr("range_outside_buffer"));
  }
};

TEST_F(Ranges, AreMeasuredByABench) {
  const auto bench = read_buffer(self_address() + "/odd", {"--bench", "--size", "1MiB", "--depth", "4", "--count", "50",
                                                           "--offset", "1", "--json"});
  EXPECT_EQ(bench.status, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("\"reads\":50,\"read_size\":1048576,\"depth\":4"));
  EXPECT_THAT(bench.out, HasSubstr("\"bytes\":52428800"));
  const auto short_range = read_buffer(self_address() + "/small", {"--bench", "--count", "3", "--json"});
  EXPECT_EQ(short_range.status, 0) << short_range.err;
  EXPECT_THAT(short_range.out, HasSubstr("\"reads\":3,\"read_size\":4096,\"depth\":3"));
}

TEST_F(Ranges, ComeOutExactly) {
  expect_range("odd", 0, odd_size);
  expect_range("odd", 0, 1);
  expect_range("odd", odd_size - 1, 1);
  expect_range("odd", 1, 1);
  expect_range("odd", 4097, 3 * mebibyte + 7);
  expect_range("odd", mebibyte - 1, 2);
  expect_range("odd", 2 * mebibyte, mebibyte);
  expect_range("odd", 20 * mebibyte - 5, 12'350);
}

TEST_F(Ranges, InChunksOfAnySize) {
  expect_range("odd", 3, 2 * mebibyte + 11, {"--size", "4KiB", "--depth", "1"});
  expect_range("odd", 0, 4 * mebibyte, {"--size", "65537", "--depth", "64"});
  expect_range("odd", 5, odd_size - 5, {"--size", "64MiB", "--depth", "2", "--no-verify"});
}

TEST_F(Ranges, EmptyOnesAndThosePastTheEndAreRefused) {
  expect_refused("small", "0", "0");
  expect_refused("small", "4096", "1");
  expect_refused("small", "4095", "2");
  expect_refused("small", "0", "4097");
  expect_refused("small", "1", "18446744073709551614");  // offset + length wraps to less than the size
  expect_refused("small", "18446744073709551615", "2");
  EXPECT_EQ(read_buffer(self_address() + "/small").out, "read 4096 bytes, data OK\n");
}

TEST_F(Ranges, ALeaseDoesNotOpenWhatLiesBehindTheBuffer) {
  peer p;
  p.resolve();
  ASSERT_TRUE(p.connect());
  const auto lease = p.open("small");
  EXPECT_EQ(p.read(lease.address, lease.rkey, 4096), IBV_WC_SUCCESS);
  EXPECT_NE(p.read(lease.address, lease.rkey, 4097), IBV_WC_SUCCESS);
  EXPECT_EQ(read_buffer(self_address() + "/small").status, 0);
}

TEST_F(Ranges, OfPartialBlocksTheWholeOnesAreVerified) {
  const auto read = read_buffer(self_address() + "/odd", {"--offset", "1", "--length", std::to_string(3 * mebibyte)});
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_THAT(read.out, HasSubstr("read 3145728 bytes, data OK (1048576 of them in partial blocks, not verified)"));
}

TEST(HugeBuffer, OffsetsBeyond32BitsWork) {
  server_process server{
      "buffers:\n  - { name: huge, memory: host, size: " + std::to_string(huge_size) + ", fill: counting }\n",
      std::chrono::minutes{4}};
  for (const std::uint64_t offset : {huge_size - 4096, (std::uint64_t{1} << 32U) - 2048}) {
    const auto read =
        read_buffer(self_address() + "/huge", {"--offset", std::to_string(offset), "--length", "4096", "-o", "-"});
    EXPECT_EQ(read.status, 0) << read.err;
    EXPECT_TRUE(read.out == counting(offset, 4096));
  }
}

TEST(Files, AreServedAndWrittenWhole) {
  scratch_folder folder;
  const auto content = counting(7, 5 * mebibyte + 321);
  const auto source = folder.write("source.bin", content);
  server_process server{"buffers:\n  - { name: file, memory: host, source: " + source.string() + " }\n"};
  const auto target = self_address() + "/file";
  const auto output = folder.path() / "out.bin";
  const auto read = read_buffer(target, {"-o", output.string(), "--json"});
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_THAT(read.out, HasSubstr("\"bytes_verified\":" + std::to_string(content.size())));
  std::ifstream in{output, std::ios::binary};
  EXPECT_TRUE(std::string(std::istreambuf_iterator<char>{in}, {}) == content);
  EXPECT_EQ(read_buffer(target, {"-o", (folder.path() / "no" / "such").string()}).status, 6);
  EXPECT_EQ(read_buffer(target, {"-o", "/dev/full"}).status, 6);
  // Nothing half-written is left.
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{folder.path()}, {}), 2);
}

TEST(ManyReaders, OfSeveralBuffersAllGetTheirBytes) {
  server_process server{
      "keepalive: { interval: 5s, timeout: 25s }\n"
      "buffers:\n  - { name: odd, memory: host, size: 3000001, fill: counting }\n"
      "  - { name: r, memory: host, size: 70000, fill: \"R\" }\n"
      "  - { name: s, memory: host, size: 1MiB, fill: \"S\" }\n"
      "  - { name: big, memory: host, size: 128MiB, fill: \"B\" }\n"};
  const std::vector<std::pair<std::string, std::string>> buffers{
      {"odd", counting(0, 3'000'001)}, {"r", std::string(70'000, 'R')}, {"s", std::string(mebibyte, 'S')}};
  const auto start = [&](std::size_t i) {
    return std::make_unique<process>(std::vector<std::string>{
        reader_program(), self_address() + "/" + buffers[i % buffers.size()].first, "-o", "-", "--timeout", "60"});
  };
  const auto stopped = std::make_unique<process>(std::vector<std::string>{reader_program(), self_address() + "/big"});
  ASSERT_TRUE(server.program().wait_for("client_connected"));
  stopped->signal(SIGSTOP);
  constexpr std::size_t readers = 64;
  std::vector<std::unique_ptr<process>> all;
  for (std::size_t i = 0; i < readers; ++i) {
    all.push_back(start(i));
  }
  for (std::size_t i = 0; i < readers; ++i) {
    EXPECT_EQ(all[i]->wait(std::chrono::minutes{4}), 0) << all[i]->err();
    EXPECT_TRUE(all[i]->out() == buffers[i % buffers.size()].second);
  }
  // The stopped one was given up, for it did not answer; it cost nobody else anything.
  EXPECT_TRUE(server.program().wait_for("why=\"nothing was heard from the peer for too long\""));
  stopped->signal(SIGCONT);
  EXPECT_EQ(stopped->wait(), 4) << stopped->err();
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace gpurdma::test
