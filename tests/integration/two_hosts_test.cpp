// On host b, against the server of host a: see host_a.sh, host_b.sh and two_hosts.yaml.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/integration/support/peer.hpp"
#include "tests/integration/support/process.hpp"
#include "tests/integration/support/remote.hpp"

namespace gpurdma::test {
namespace {

using testing::HasSubstr;

bool holds_only(const std::filesystem::path& file, std::size_t size, char letter) {
  std::ifstream in{file, std::ios::binary};
  const std::string content{std::istreambuf_iterator<char>{in}, {}};
  return content == std::string(size, letter);
}

TEST(TwoHosts, ReadsOverTheWire) {
  const auto read = read_buffer(peer_address() + "/demo");
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_EQ(read.out, "read 4096 bytes, data OK\n");
  const auto plain = run({plain_reader_program(), peer_address(), "7471", "demo"});
  EXPECT_EQ(plain.out, "read 4096 bytes, data OK\n") << plain.err;
  const auto v6 = read_buffer("[" + peer_address6() + "]/demo");
  EXPECT_EQ(v6.out, "read 4096 bytes, data OK\n") << v6.err;
}

TEST(TwoHosts, AReaderKilledInMidReadCostsOnlyItself) {
  const remote_server server;
  const auto start = server.log().size();
  ASSERT_EQ(read_buffer(peer_address() + "/demo").status, 0);
  ASSERT_TRUE(server.wait_for("client_left", start));
  const auto resources = server.resources();
  const auto before = server.log().size();
  process victim{{reader_program(), peer_address() + "/large", "--depth", "4"}};
  ASSERT_TRUE(server.wait_for("lease_granted", before));
  process other{{reader_program(), peer_address() + "/large", "--depth", "4"}};
  victim.signal(SIGKILL);
  EXPECT_EQ(victim.wait(), 128 + SIGKILL);
  EXPECT_EQ(other.wait(), 0) << other.err();
  EXPECT_THAT(other.out(), HasSubstr("data OK"));
  EXPECT_TRUE(server.resources_return_to(resources));
}

TEST(TwoHosts, ADroppedClientReadsNothingMoreNotEvenInMidRead) {
  const remote_server server;
  ASSERT_EQ(read_buffer(peer_address() + "/demo").status, 0);
  const auto before = server.log().size();
  peer p;
  p.resolve(peer_address());
  ASSERT_TRUE(p.connect());
  const auto lease = p.open("large");
  // It reads without a pause and answers no ping, and so the server drops it while a READ is running.
  auto status = IBV_WC_SUCCESS;
  const auto end = std::chrono::steady_clock::now() + patience;
  while (status == IBV_WC_SUCCESS && std::chrono::steady_clock::now() < end) {
    status = p.read(lease.address, lease.rkey, 1U << 20U);
  }
  EXPECT_NE(status, IBV_WC_SUCCESS);
  EXPECT_TRUE(server.wait_for("nothing was heard from the peer for too long", before));
  EXPECT_EQ(read_buffer(peer_address() + "/demo").status, 0);
}

TEST(TwoHosts, AReloadInMidReadMixesNothing) {
  const remote_server server;
  scratch_folder folder;
  constexpr std::size_t size = 32U << 20U;
  for (char letter = 'b'; letter < 'e'; ++letter) {
    const auto before = server.log().size();
    const auto old = folder.path() / "old";
    std::ofstream{shared("next")} << std::string(size, letter);
    process reader{{reader_program(), peer_address() + "/changing", "--depth", "2", "-o", old.string()}};
    ASSERT_TRUE(server.wait_for("lease_granted", before));
    std::filesystem::rename(shared("next"), shared("changing"));
    server.signal("HUP");
    ASSERT_TRUE(server.wait_for("reload_finished", before));
    EXPECT_EQ(reader.wait(), 0) << reader.err();
    EXPECT_TRUE(holds_only(old, size, static_cast<char>(letter - 1)));
    const auto now = folder.path() / "now";
    EXPECT_EQ(read_buffer(peer_address() + "/changing", {"-o", now.string()}).status, 0);
    EXPECT_TRUE(holds_only(now, size, letter));
    EXPECT_TRUE(server.wait_for("version_freed", before));
  }
}

// The last, for it ends the server.
TEST(TwoHosts, TheServerStopsInOrderDuringARead) {
  const remote_server server;
  const auto before = server.log().size();
  process reader{{reader_program(), peer_address() + "/large", "--depth", "4"}};
  ASSERT_TRUE(server.wait_for("lease_granted", before));
  server.signal("TERM");
  const auto status = reader.wait();
  ASSERT_TRUE(status.has_value());
  // It either finished within the time that was left to it, or says why not.
  if (status != 0) {
    EXPECT_EQ(status, 4);
    EXPECT_FALSE(reader.err().empty());
  }
  EXPECT_EQ(server.exit_status(), 0);
  EXPECT_THAT(server.log(), HasSubstr("server_stopped"));
}

}  // namespace
}  // namespace gpurdma::test
