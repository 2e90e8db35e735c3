// gpurdma-server --doctor on a machine with an RDMA device and without a GPU.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "tests/integration/support/process.hpp"

namespace gpurdma::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr const char* preamble = "listen: [\"0.0.0.0:7471\"]\nsecurity: { open: true }\nbuffers:\n";

TEST(Doctor, ReadsHostMemoryOverTheDevice) {
  const auto before = rdma_resources();
  const auto found = run({server_program(), "--doctor"});
  EXPECT_EQ(found.status, 0) << found.out << found.err;
  EXPECT_TRUE(found.err.empty()) << found.err;
  for (const auto* const check : {"configuration", "kernel module", "device files", "RDMA device", "port", "GID", "MTU",
                                  "address", "memlock", "CUDA", "NVIDIA driver"}) {
    EXPECT_THAT(found.out, ContainsRegex(std::string{"(ok  |WARN)  "} + check + " ")) << check;
  }
  EXPECT_THAT(found.out,
              ContainsRegex("ok    loop-back READ  .*host memory  16 MiB read, data OK .CRC32C [0-9a-f]{8}., "
                            "[0-9.]+ GB/s, by host"));
  EXPECT_THAT(found.out, HasSubstr(", 0 failed"));
  EXPECT_TRUE(resources_return_to(before));
}

TEST(Doctor, SpeaksJson) {
  const auto found = run({server_program(), "--doctor", "--json"});
  EXPECT_EQ(found.status, 0) << found.out << found.err;
  const auto parsed = boost::json::parse(found.out).as_object();
  EXPECT_EQ(parsed.at("status"), 0);
  EXPECT_EQ(parsed.at("fail"), 0);
  bool read = false;
  for (const auto& row : parsed.at("checks").as_array()) {
    if (const auto* const measured = row.as_object().if_contains("read")) {
      read = true;
      EXPECT_EQ(measured->as_object().at("bytes"), 16 << 20);
      EXPECT_GT(measured->as_object().at("seconds").as_double(), 0);
    }
  }
  EXPECT_TRUE(read) << found.out;
}

TEST(Doctor, WorksBesideARunningServer) {
  server_process server{"buffers:\n  - { name: demo, memory: host, size: 4KiB, fill: \"R\" }\n"};
  const auto found = run({server_program(), "--doctor"});
  EXPECT_EQ(found.status, 0) << found.out << found.err;
  EXPECT_EQ(server.stop(), 0);
}

TEST(Doctor, ReportsAConfiguredGpuThatIsNotThere) {
  scratch_folder folder;
  const auto file = folder.write(
      "server.yaml", std::string{preamble} + "  - { name: weights, memory: cuda, size: 4KiB, fill: \"R\" }\n");
  EXPECT_EQ(run({server_program(), "--check-config", "--config", file.string()}).status, 2);
  const auto found = run({server_program(), "--doctor", "--config", file.string()});
  EXPECT_EQ(found.status, 6) << found.out << found.err;
  EXPECT_THAT(found.out, ContainsRegex("FAIL  CUDA "));
  EXPECT_THAT(found.out, HasSubstr("memory: cuda"));
  EXPECT_THAT(found.out, ContainsRegex("ok    loop-back READ"));  // the rest is examined all the same
}

// With a GPU of which only the driver's edge is made up (tests/fake_cuda): the refusal to register is the kernel's.
TEST(Doctor, ReadsACopyOnlyWhereThatIsAllowed) {
  const auto examine = [](const std::string& allowed) {
    const scratch_folder folder;
    const auto file = folder.write("server.yaml", std::string{preamble} +
                                                      "  - { name: weights, memory: cuda, size: 4KiB, fill: \"R\", "
                                                      "allow_staging: " +
                                                      allowed + " }\n");
    return run({server_with_fake_gpu_program(), "--doctor", "--config", file.string()});
  };
  const auto staged = examine("true");
  EXPECT_EQ(staged.status, 0) << staged.out << staged.err;
  EXPECT_THAT(staged.out, ContainsRegex("WARN  loop-back READ  .*GPU 0 .*data OK.*by staged"));
  EXPECT_THAT(staged.out, ContainsRegex("WARN  way to GPUs .*nvidia_peermem is not loaded"));
  const auto refused = examine("false");
  EXPECT_EQ(refused.status, 6) << refused.out << refused.err;
  EXPECT_THAT(refused.out, ContainsRegex("FAIL  loop-back READ  .*GPU 0 .*cannot be registered"));
  EXPECT_THAT(refused.out, ContainsRegex("ok    loop-back READ  .*host memory"));
}

TEST(Doctor, ReportsABadConfiguration) {
  scratch_folder folder;
  const auto file = folder.write("server.yaml", "nonsense: 1\n");
  const auto found = run({server_program(), "--doctor", "--config", file.string()});
  EXPECT_EQ(found.status, 6) << found.out << found.err;
  EXPECT_THAT(found.out, ContainsRegex("FAIL  configuration .*server.yaml:1:1"));
  EXPECT_EQ(run({server_program(), "--json"}).status, 1);
  EXPECT_EQ(run({server_program(), "--doctor", "--check-config"}).status, 1);
}

}  // namespace
}  // namespace gpurdma::test
