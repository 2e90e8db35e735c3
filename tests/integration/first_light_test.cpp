// The whole of the product at its smallest, on real verbs: 4096 bytes of 'R'.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <vector>

#include "tests/integration/support/peer.hpp"
#include "tests/integration/support/process.hpp"
#include "tests/integration/support/stepper.hpp"

namespace gpurdma::test {
namespace {

using testing::HasSubstr;

constexpr const char* demo =
    "shutdown: { drain: 1s }\n"
    "buffers:\n  - { name: demo, memory: host, size: 4KiB, fill: \"R\" }\n";

std::string demo_target() { return self_address() + "/demo"; }

TEST(FirstLight, OneReader) {
  server_process server{demo};
  const auto read = read_buffer(demo_target());
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_EQ(read.out, "read 4096 bytes, data OK\n");
  EXPECT_EQ(read_buffer(demo_target(), {"-o", "-"}).out, std::string(4096, 'R'));
  EXPECT_EQ(server.stop(), 0);
  EXPECT_THAT(server.program().err(), HasSubstr("server_stopped"));
}

TEST(FirstLight, SixteenReadersAtOnce) {
  server_process server{demo};
  std::vector<std::unique_ptr<process>> readers;
  for (int i = 0; i < 16; ++i) {
    readers.push_back(std::make_unique<process>(std::vector{reader_program(), demo_target()}));
  }
  for (const auto& reader : readers) {
    EXPECT_EQ(reader->wait(), 0) << reader->err();
    EXPECT_EQ(reader->out(), "read 4096 bytes, data OK\n");
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST(FirstLight, ReaderInPlainC) {
  server_process server{demo};
  const auto read = run({plain_reader_program(), self_address(), "7471", "demo"});
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_EQ(read.out, "read 4096 bytes, data OK\n");
  const auto refused = run({plain_reader_program(), self_address(), "7471", "nope"});
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr("there is no buffer 'nope'"));
  EXPECT_EQ(server.stop(), 0);
}

TEST(FirstLight, WrongMagicIsRefusedWithAReason) {
  server_process server{demo};
  peer p;
  p.resolve();
  EXPECT_FALSE(p.connect(std::vector<std::byte>(40, std::byte{'x'})));
  const auto refusal = protocol::decode_refusal(p.answer());
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, protocol::errc::wrong_magic);
  EXPECT_FALSE(refusal->sentence.empty());
  EXPECT_TRUE(server.program().wait_for("code=wrong_magic"));
  EXPECT_EQ(server.stop(), 0);
}

TEST(FirstLight, UnknownVersionIsRefusedWithAReason) {
  server_process server{demo};
  peer p;
  p.resolve();
  EXPECT_FALSE(p.connect({.lowest_version = 7, .highest_version = 9}));
  const auto refusal = protocol::decode_refusal(p.answer());
  ASSERT_TRUE(refusal);
  EXPECT_EQ(refusal->code, protocol::errc::no_common_version);
  EXPECT_EQ(refusal->highest_version, protocol::version);
  EXPECT_THAT(refusal->sentence, HasSubstr("the client 7 to 9"));
  EXPECT_EQ(server.stop(), 0);
}

TEST(FirstLight, NobodyWrites) {
  server_process server{demo};
  for (const auto opcode : {IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    peer p;
    p.resolve();
    ASSERT_TRUE(p.connect());
    const auto lease = p.open("demo");
    EXPECT_EQ(p.read(lease.address, lease.rkey, 4096), IBV_WC_SUCCESS);
    EXPECT_NE(p.write(lease.address, lease.rkey, 8, opcode), IBV_WC_SUCCESS);
  }
  EXPECT_EQ(read_buffer(demo_target()).out, "read 4096 bytes, data OK\n");
  EXPECT_EQ(server.stop(), 0);
}

TEST(FirstLight, AReaderKilledAtAnyStepLeavesNothingBehind) {
  server_process server{demo};
  ASSERT_EQ(read_buffer(demo_target()).status, 0);  // what the first client makes and all share
  ASSERT_TRUE(server.program().wait_for("client_left"));
  const auto resources = rdma_resources();
  const auto descriptors = server.program().descriptors();
  for (const auto& step : steps) {
    SCOPED_TRACE(step);
    process reader{stepper_command(step)};
    ASSERT_TRUE(reader.wait_for("at " + step)) << reader.err();
    reader.signal(SIGKILL);
    EXPECT_EQ(reader.wait(), 128 + SIGKILL);
    EXPECT_TRUE(resources_return_to(resources));
    EXPECT_TRUE(descriptors_return_to(server.program(), descriptors));
  }
  EXPECT_EQ(read_buffer(demo_target()).out, "read 4096 bytes, data OK\n");
  EXPECT_EQ(server.stop(), 0);
}

TEST(FirstLight, AServerStoppedAtAnyStepEndsInOrder) {
  const auto before = rdma_resources();
  for (const auto& step : steps) {
    SCOPED_TRACE(step);
    server_process server{demo};
    process reader{stepper_command(step)};
    ASSERT_TRUE(reader.wait_for("at " + step)) << reader.err();
    EXPECT_EQ(server.stop(), 0);
    EXPECT_THAT(server.program().err(), HasSubstr("server_stopped"));
    EXPECT_THAT(server.program().err(), Not(HasSubstr("work_requests_lost")));
    reader.say("go");
    EXPECT_EQ(reader.wait(), 0) << reader.err();
    EXPECT_TRUE(resources_return_to(before));
  }
}

TEST(FirstLight, AServerStoppedWhileItStartsEndsInOrder) {
  const auto before = rdma_resources();
  scratch_folder folder;
  const auto file = folder.write("server.yaml",
                                 "listen: [\"0.0.0.0:7471\"]\nsecurity: { open: true }\nbuffers:\n"
                                 "  - { name: big, memory: host, size: 1GiB, fill: counting }\n");
  process server{{server_program(), "--config", file.string()}};
  ASSERT_TRUE(server.wait_for("server_starting")) << server.err();
  server.signal(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_THAT(server.err(), Not(HasSubstr("server_ready")));
  EXPECT_TRUE(resources_return_to(before));
}

TEST(FirstLight, TwoServersCannotShareAPort) {
  server_process first{demo};
  scratch_folder folder;
  const auto file =
      folder.write("server.yaml", std::string{demo} + "listen: [\"0.0.0.0:7471\"]\nsecurity: { open: true }\n");
  const auto second = run({server_program(), "--config", file.string()});
  EXPECT_EQ(second.status, 4);
  EXPECT_THAT(second.err, HasSubstr("cannot listen on 0.0.0.0:7471"));
  EXPECT_THAT(second.err, HasSubstr("another process listens there"));  // and what to look at
  EXPECT_THAT(second.err, HasSubstr("rdma resource show"));
  EXPECT_EQ(read_buffer(demo_target()).status, 0);
  EXPECT_EQ(first.stop(), 0);
}

}  // namespace
}  // namespace gpurdma::test
