// Reload of the configuration while readers hold leases, and the operator's tool.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <set>
#include <thread>
#include <vector>

#include "tests/integration/support/peer.hpp"
#include "tests/integration/support/process.hpp"

namespace gpurdma::test {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* demo = "buffers:\n  - { name: demo, memory: host, size: 4KiB, fill: \"R\" }\n";

std::string target(const std::string& buffer) { return self_address() + "/" + buffer; }

/// The configuration of one buffer that holds `letter`.
std::string of_letter(char letter, const std::string& rest = {}) {
  return rest + "buffers:\n  - { name: demo, memory: host, size: 4KiB, fill: " + letter + " }\n";
}

protocol::notice next_notice(peer& p) {
  const auto m = p.receive();
  const auto* const n = m ? std::get_if<protocol::notice>(&m->content) : nullptr;
  EXPECT_NE(n, nullptr) << "no notice came";
  return n != nullptr ? *n : protocol::notice{};
}

bool holds_only(const peer& p, char letter) {
  return std::all_of(p.data().begin(), p.data().begin() + 4096,
                     [&](std::byte b) { return b == static_cast<std::byte>(letter); });
}

TEST(Ctl, TellsWhatTheServerDoes) {
  server_process server{demo};
  EXPECT_THAT(server.ctl({"status"}).out, AllOf(HasSubstr("serving"), HasSubstr("0.0.0.0:7471")));
  peer p;
  p.resolve();
  ASSERT_TRUE(p.connect());
  std::ignore = p.open("demo");
  EXPECT_THAT(server.ctl({"--json", "status"}).out, AllOf(HasSubstr("\"clients\":1"), HasSubstr("\"leases\":1")));
  EXPECT_THAT(server.ctl({"clients"}).out, HasSubstr("demo/1"));
  EXPECT_THAT(server.ctl({"buffers"}).out, HasSubstr("served"));
  const auto verified = server.ctl({"verify"});
  EXPECT_EQ(verified.status, 0);
  EXPECT_EQ(verified.out, "demo version 1: 4096 bytes, data OK\n");
  EXPECT_TRUE(server.program().wait_for("result=\"data OK\""));
  p.disconnect();
  EXPECT_TRUE(server.program().wait_for("client_left"));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Ctl, SaysWhatIsWrongAndEndsAccordingly) {
  server_process server{demo};
  EXPECT_EQ(server.ctl({}).status, 1);
  EXPECT_EQ(server.ctl({"drop", "nobody"}).status, 1);
  const auto unknown = server.ctl({"drop", "77"});
  EXPECT_EQ(unknown.status, 3);
  EXPECT_THAT(unknown.err, HasSubstr("no such client"));
  EXPECT_EQ(server.ctl({"verify", "nope"}).status, 3);
  EXPECT_EQ(server.ctl({"reload", "--republish", "nope"}).status, 3);
  EXPECT_EQ(server.stop(), 0);
  const auto gone = server.ctl({"status"});
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.err, HasSubstr("is gpurdma-server running"));
}

TEST(Ctl, DropsAClientThatIsToldWhy) {
  server_process server{demo};
  peer p;
  p.resolve();
  ASSERT_TRUE(p.connect());
  const auto lease = p.open("demo");
  EXPECT_EQ(server.ctl({"drop", "1"}).status, 0);
  const auto told = next_notice(p);
  EXPECT_EQ(told.kind, protocol::notice_kind::lease_revoked);
  EXPECT_EQ(told.code, protocol::errc::dropped_by_operator);
  EXPECT_EQ(told.lease_id, lease.id);
  EXPECT_TRUE(p.is_lost());
  EXPECT_TRUE(server.program().wait_for("client_dropped"));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Ctl, DroppedMeansThatNoFurtherConnectionHelps) {
  server_process server{demo};
  // It has no RECV for the notice, so that its connection lingers.
  peer dropped{{.receives = 1}};
  dropped.resolve();
  ASSERT_TRUE(dropped.connect());
  const auto session = protocol::decode_welcome(dropped.answer())->session;
  const auto lease = dropped.open("demo");
  peer again;
  again.resolve();
  EXPECT_EQ(server.ctl({"drop", "1"}).status, 0);
  EXPECT_FALSE(again.connect({.session = session}));
  const auto refusal = protocol::decode_refusal(again.answer());
  ASSERT_TRUE(refusal);
  EXPECT_THAT(refusal->code, AnyOf(protocol::errc::dropped_by_operator, protocol::errc::unknown_session));
  EXPECT_NE(dropped.read(lease.address, lease.rkey, 4096), IBV_WC_SUCCESS);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Ctl, FindsASocketThatACrashLeft) {
  scratch_folder folder;
  const std::string control = "control: { socket: " + (folder.path() / "c.sock").string() + " }\n";
  {
    server_process crashed{demo + control};
    crashed.program().signal(SIGKILL);
    ASSERT_TRUE(crashed.program().wait());
  }
  ASSERT_TRUE(std::filesystem::exists(folder.path() / "c.sock"));
  server_process server{demo + control};
  const auto ctl = run({ctl_program(), "--socket", (folder.path() / "c.sock").string(), "status"});
  EXPECT_EQ(ctl.status, 0) << ctl.err;
  EXPECT_EQ(server.stop(), 0);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "c.sock"));
}

TEST(Reload, AddsRemovesReplacesAndKeeps) {
  server_process server{
      "buffers:\n"
      "  - { name: kept, memory: host, size: 4KiB, fill: k }\n"
      "  - { name: gone, memory: host, size: 4KiB, fill: g }\n"
      "  - { name: other, memory: host, size: 4KiB, fill: o }\n"};
  ASSERT_EQ(read_buffer(target("kept")).status, 0);
  ASSERT_TRUE(server.program().wait_for("client_left"));
  const auto before = rdma_resources();
  server.rewrite(
      "buffers:\n"
      "  - { name: kept, memory: host, size: 4KiB, fill: k }\n"
      "  - { name: new, memory: host, size: 4KiB, fill: n }\n"
      "  - { name: other, memory: host, size: 8KiB, fill: p }\n");
  const auto reload = server.ctl({"reload"});
  EXPECT_EQ(reload.status, 0) << reload.err;
  EXPECT_EQ(reload.out, "added     new\nreplaced  other\nremoved   gone\nkept      kept\n");
  EXPECT_EQ(read_buffer(target("other"), {"-o", "-"}).out, std::string(8192, 'p'));
  EXPECT_EQ(read_buffer(target("new"), {"-o", "-"}).out, std::string(4096, 'n'));
  EXPECT_EQ(read_buffer(target("gone")).status, 3);
  const auto list = read_buffer(self_address(), {"--list"});
  EXPECT_THAT(list.out, Not(HasSubstr("gone")));
  EXPECT_TRUE(server.program().wait_for_count("version_freed", 2));
  EXPECT_TRUE(resources_return_to(before));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Reload, RefusesABadConfigurationAndGoesOnServing) {
  server_process server{demo};
  server.rewrite("buffers: [{ name: demo, memory: nowhere }]\n");
  const auto reload = server.ctl({"reload"});
  EXPECT_EQ(reload.status, 3);
  EXPECT_THAT(reload.err, HasSubstr("memory must be"));
  server.program().signal(SIGHUP);
  EXPECT_TRUE(server.program().wait_for_count("reload_failed", 2));
  EXPECT_EQ(read_buffer(target("demo"), {"-o", "-"}).out, std::string(4096, 'R'));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Reload, NamesWhatNeedsARestart) {
  server_process server{demo};
  server.rewrite(std::string{demo} + "listen: [\"0.0.0.0:7472\"]\nlimits: { clients: 5 }\n");
  const auto reload = server.ctl({"reload"});
  EXPECT_EQ(reload.status, 0) << reload.err;
  EXPECT_THAT(reload.out, HasSubstr("listen changed, which needs a restart"));
  EXPECT_TRUE(server.program().wait_for("restart_needed"));
  EXPECT_EQ(read_buffer(target("demo")).status, 0);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Reload, SeesThatASourceIsAnotherFile) {
  scratch_folder folder;
  const auto file = folder.write("source", "first");
  const auto settings = "buffers:\n  - { name: demo, memory: host, source: " + file.string() + " }\n";
  server_process server{settings};
  EXPECT_EQ(server.ctl({"reload"}).out, "added     -\nreplaced  -\nremoved   -\nkept      demo\n");
  std::filesystem::rename(folder.write("next", "second"), file);
  EXPECT_EQ(server.ctl({"reload"}).status, 0);
  EXPECT_EQ(read_buffer(target("demo"), {"-o", "-"}).out, "second");
  EXPECT_EQ(server.ctl({"reload", "--republish", "demo"}).status, 0);
  EXPECT_THAT(read_buffer(self_address(), {"--list"}).out, HasSubstr("3\n"));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Reload, LeavesAnOldVersionToItsHolderAndTellsIt) {
  for (const auto* const isolation : {"principal", "lease"}) {
    server_process server{of_letter('a', std::string{"security: { open: true, isolation: "} + isolation + " }\n")};
    peer p;
    p.resolve();
    ASSERT_TRUE(p.connect());
    const auto old = p.open("demo");
    server.rewrite(of_letter('b', std::string{"security: { open: true, isolation: "} + isolation + " }\n"));
    ASSERT_EQ(server.ctl({"reload"}).status, 0);
    const auto told = next_notice(p);
    EXPECT_EQ(told.kind, protocol::notice_kind::buffer_replaced);
    EXPECT_EQ(told.code, protocol::errc::version_replaced);
    EXPECT_EQ(told.lease_id, old.id);
    EXPECT_EQ(p.read(old.address, old.rkey, 4096), IBV_WC_SUCCESS);
    EXPECT_TRUE(holds_only(p, 'a'));
    EXPECT_THAT(server.ctl({"buffers"}).out, HasSubstr("replaced"));
    const auto now = p.open("demo");
    EXPECT_EQ(now.version, 2U);
    EXPECT_EQ(p.read(now.address, now.rkey, 4096), IBV_WC_SUCCESS);
    EXPECT_TRUE(holds_only(p, 'b'));
    EXPECT_EQ(server.program().count("version_freed"), 0U);
    std::ignore = p.ask<protocol::released>(protocol::release{old.id, 0});
    EXPECT_TRUE(server.program().wait_for("version_freed"));
    // The session holds another lease, so it may read; but the key of the old version is dead.
    EXPECT_NE(p.read(old.address, old.rkey, 4096), IBV_WC_SUCCESS);
    EXPECT_EQ(server.stop(), 0);
  }
}

TEST(Reload, TellsOfEachOfManyLeasesAndStillAnswers) {
  constexpr std::size_t leases = 40;
  server_process server{of_letter('a')};
  peer p{{.receives = 2 * leases + 2}};
  p.resolve();
  ASSERT_TRUE(p.connect());
  std::set<std::uint64_t> untold;
  for (std::size_t i = 0; i < leases; ++i) {
    untold.insert(p.open("demo").id);
  }
  const auto one = *untold.begin();
  server.rewrite(of_letter('b'));
  ASSERT_EQ(server.ctl({"reload"}).status, 0);
  for (std::size_t i = 0; i < leases; ++i) {
    untold.erase(next_notice(p).lease_id);
  }
  EXPECT_THAT(untold, IsEmpty());
  EXPECT_GT(p.ask<protocol::renewed>(protocol::renew{one}).duration_ms, 0U);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Reload, EndsLeasesOfAnOldVersionWithTheGraceTime) {
  server_process server{of_letter('a', "lease: { duration: 30s, grace: 3s }\n")};
  peer p;
  p.resolve();
  ASSERT_TRUE(p.connect());
  const auto old = p.open("demo");
  server.rewrite(of_letter('b', "lease: { duration: 30s, grace: 3s }\n"));
  ASSERT_EQ(server.ctl({"reload"}).status, 0);
  EXPECT_EQ(next_notice(p).kind, protocol::notice_kind::buffer_replaced);
  const auto renewed = p.ask<protocol::renewed>(protocol::renew{old.id});
  EXPECT_LE(renewed.duration_ms, 3000U);
  const auto told = next_notice(p);
  EXPECT_EQ(told.kind, protocol::notice_kind::lease_revoked);
  EXPECT_EQ(told.code, protocol::errc::version_replaced);
  EXPECT_TRUE(server.program().wait_for("version_freed"));
  EXPECT_NE(p.read(old.address, old.rkey, 4096), IBV_WC_SUCCESS);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Reload, DrainsTheOldVersionFirstWhereAsked) {
  const auto settings = [](char letter) {
    return std::string{
               "lease: { grace: 3s }\nbuffers:\n  - { name: demo, memory: host, size: 4KiB, replace: drain, fill: "} +
           letter + " }\n";
  };
  server_process server{settings('a')};
  peer p;
  p.resolve();
  ASSERT_TRUE(p.connect());
  std::ignore = p.open("demo");
  server.rewrite(settings('b'));
  process reload{{ctl_program(), "--socket", server.control_socket(), "reload"}};
  ASSERT_TRUE(server.program().wait_for("version_retired"));
  const auto meanwhile = read_buffer(target("demo"));
  EXPECT_EQ(meanwhile.status, 3);
  EXPECT_THAT(meanwhile.err, HasSubstr("is being replaced"));
  EXPECT_EQ(reload.wait(), 0) << reload.err();
  EXPECT_EQ(read_buffer(target("demo"), {"-o", "-"}).out, std::string(4096, 'b'));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Reload, ServesNothingWhereTheOldVersionWasDrainedAndTheNewOneCannotBeMade) {
  const auto sized = [](const char* size) {
    return std::string{"buffers:\n  - { name: demo, memory: host, replace: drain, fill: a, size: "} + size +
           " }\n  - { name: other, memory: host, fill: b, size: 4KiB }\n";
  };
  server_process server{sized("4KiB")};
  server.rewrite(sized("900TB"));
  EXPECT_EQ(server.ctl({"reload"}).status, 4);
  const auto refused = read_buffer(target("demo"));
  EXPECT_EQ(refused.status, 3);
  EXPECT_THAT(refused.err, HasSubstr("out of service: its new version could not be made"));
  EXPECT_EQ(read_buffer(target("other"), {"-o", "-"}).out, std::string(4096, 'b'));
  server.rewrite("buffers:\n  - { name: other, memory: host, fill: b, size: 4KiB }\n");
  EXPECT_EQ(server.ctl({"reload"}).status, 0);
  EXPECT_THAT(read_buffer(target("demo")).err, HasSubstr("there is no buffer"));
  server.rewrite(sized("8KiB"));
  EXPECT_EQ(server.ctl({"reload"}).status, 0);
  EXPECT_EQ(read_buffer(target("demo"), {"-o", "-"}).out, std::string(8192, 'a'));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Reload, KeepsTheOldVersionWhereTheNewOneCannotBeMade) {
  server_process server{demo};
  server.rewrite("buffers:\n  - { name: demo, memory: host, size: 900TB, fill: b }\n");
  const auto reload = server.ctl({"reload"});
  EXPECT_EQ(reload.status, 4);
  EXPECT_THAT(reload.out, HasSubstr("buffer demo: cannot allocate"));
  EXPECT_EQ(read_buffer(target("demo"), {"-o", "-"}).out, std::string(4096, 'R'));
  server.rewrite(of_letter('c'));
  EXPECT_EQ(server.ctl({"reload"}).status, 0);
  EXPECT_EQ(read_buffer(target("demo"), {"-o", "-"}).out, std::string(4096, 'c'));
  EXPECT_EQ(server.stop(), 0);
}

TEST(ReloadUnderLoad, NeverShowsAWrongOrMixedByteAndLeaksNothing) {
  constexpr auto size = std::size_t{256} * 1024;
  scratch_folder folder;
  const auto file = folder.write("source", std::string(size, 'a'));
  server_process server{"buffers:\n  - { name: demo, memory: host, source: " + file.string() + " }\n"};
  ASSERT_EQ(read_buffer(target("demo")).status, 0);
  ASSERT_TRUE(server.program().wait_for("client_left"));
  const auto resources = rdma_resources();
  const auto descriptors = server.program().descriptors();
  std::atomic<bool> over = false;
  std::atomic<int> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 16; ++i) {
    readers.emplace_back([&] {
      while (!over) {
        const auto read = read_buffer(target("demo"), {"-o", "-"});
        EXPECT_EQ(read.status, 0) << read.err;
        EXPECT_TRUE(read.out.size() == size && read.out.find_first_not_of(read.out.front()) == std::string::npos);
        ++reads;
      }
    });
  }
  for (int i = 0; i < 200 && !testing::Test::HasFailure(); ++i) {
    std::filesystem::rename(folder.write("next", std::string(size, static_cast<char>('a' + i % 26))), file);
    const auto reload = server.ctl({"reload"});
    EXPECT_EQ(reload.status, 0) << reload.out << reload.err;
    // This also empties the pipe of its log, at which the server would wait once it is full.
    EXPECT_TRUE(server.program().wait_for_count("reload_finished", static_cast<std::size_t>(i) + 1));
  }
  over = true;
  for (auto& r : readers) {
    r.join();
  }
  std::printf("%d reads during 200 reloads\n", reads.load());
  EXPECT_GT(reads, 16);
  EXPECT_TRUE(server.program().wait_for_count("version_freed", 200));
  EXPECT_TRUE(resources_return_to(resources));
  EXPECT_TRUE(descriptors_return_to(server.program(), descriptors));
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace gpurdma::test
