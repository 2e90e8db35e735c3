// Buffers of GPU memory on machines that cannot serve them as such: without a GPU, and with one that the adapter cannot
// reach, of which only the driver's edge is made up (tests/fake_cuda): the refusal to register is the kernel's.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/integration/support/peer.hpp"
#include "tests/integration/support/process.hpp"

namespace gpurdma::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string buffers(bool allow_staging) {
  return std::string{"buffers:\n  - { name: host, memory: host, size: 3MiB, fill: counting }\n"} +
         "  - { name: gpu, memory: cuda, size: 3000001, fill: counting, allow_staging: " +
         (allow_staging ? "true" : "false") + " }\n";
}

finished start_in_vain(const std::string& program, const std::string& settings,
                       const std::vector<std::string>& options = {}) {
  const scratch_folder folder;
  const auto file =
      folder.write("server.yaml", "listen: [\"0.0.0.0:7471\"]\nsecurity: { open: true }\n" + settings).string();
  std::vector<std::string> command{program, "--config", file};
  command.insert(command.end(), options.begin(), options.end());
  return run(command);
}

TEST(Gpu, BuffersAreAProblemWhereThereIsNoGpuButOneThatMayMendItself) {
  const auto server = start_in_vain(server_program(), buffers(true));
  EXPECT_EQ(server.status, 3);
  EXPECT_THAT(server.err, AllOf(HasSubstr("server.yaml:5:"), HasSubstr("memory: cuda cannot be had: ")));
  EXPECT_EQ(start_in_vain(server_program(), buffers(true), {"--check-config"}).status, 2);
  EXPECT_EQ(start_in_vain(server_program(), buffers(true) + "nonsense: 1\n").status, 2);
}

TEST(Gpu, IsNothingToReadIntoWhereThereIsNone) {
  server_process server{"buffers:\n  - { name: a, memory: host, size: 4KiB, fill: \"R\" }\n"};
  const auto read = read_buffer(self_address() + "/a", {"--to-gpu", "0"});
  EXPECT_EQ(read.status, 6);
  EXPECT_THAT(read.err, HasSubstr("--to-gpu 0: "));
}

TEST(Gpu, ThatCannotBeReachedIsRefusedWithTheRemedy) {
  const auto server = start_in_vain(server_with_fake_gpu_program(), buffers(false));
  EXPECT_EQ(server.status, 4);
  EXPECT_THAT(server.err, AllOf(HasSubstr("buffer gpu: GPU 0 (Fake at 0000:00:00.0) memory cannot be registered on "),
                                HasSubstr("exports no dma-buf"), HasSubstr("nvidia_peermem is not loaded"),
                                HasSubstr("run modprobe nvidia_peermem, or set allow_staging: true")));
}

TEST(Gpu, ThatCannotBeReachedIsServedAsACopyWhereThatIsAllowed) {
  server_process server{buffers(true), patience, server_with_fake_gpu_program()};
  EXPECT_THAT(server.program().err(), AllOf(HasSubstr("buffer_staged: "), HasSubstr("buffer=gpu")));
  for (const auto* const name : {"host", "gpu"}) {
    const auto read = read_buffer(self_address() + "/" + name);
    EXPECT_EQ(read.status, 0) << read.err;
    EXPECT_THAT(read.out, HasSubstr("data OK"));
  }
  const auto listed = read_buffer(self_address(), {"--list"});
  EXPECT_THAT(listed.out, AllOf(HasSubstr("gpu   3000001  1  staged\n"), HasSubstr("host  3145728  1\n")));
  peer client;
  client.resolve();
  ASSERT_TRUE(client.connect());
  EXPECT_TRUE(client.open("gpu").staged);
  EXPECT_FALSE(client.open("host").staged);
  client.disconnect();
  EXPECT_EQ(server.stop(), 0);
}

TEST(Gpu, ThatFailsTakesItsBuffersOutOfServiceAndNoOthers) {
  const scratch_folder folder;
  const auto flag = folder.path() / "lost";
  ::setenv("FAKE_GPU_LOST", flag.c_str(), 1);
  server_process server{buffers(true), patience, server_with_fake_gpu_program()};
  ::unsetenv("FAKE_GPU_LOST");
  peer client;
  client.resolve();
  ASSERT_TRUE(client.connect());
  const auto lent = client.open("gpu");
  static_cast<void>(folder.write("lost", ""));
  EXPECT_TRUE(server.program().wait_for("gpu_lost: "));
  const auto told = client.receive();
  ASSERT_TRUE(told);
  const auto& notice = std::get<protocol::notice>(told->content);
  EXPECT_EQ(notice.kind, protocol::notice_kind::lease_revoked);
  EXPECT_EQ(notice.code, protocol::errc::buffer_unavailable);
  EXPECT_EQ(notice.lease_id, lent.id);
  EXPECT_NE(client.read(lent.address, lent.rkey, 4096), IBV_WC_SUCCESS) << "the lease is over, and its key dead";

  EXPECT_EQ(read_buffer(self_address() + "/host").status, 0);
  const auto refused = read_buffer(self_address() + "/gpu");
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("out of service"), HasSubstr("buffer_unavailable")));
  EXPECT_THAT(read_buffer(self_address(), {"--list"}).out, testing::Not(HasSubstr("gpu")));
  client.disconnect();
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace gpurdma::test
