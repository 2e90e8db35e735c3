// Sessions, leases and keys: who may read what, and until when.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <vector>

#include "tests/integration/support/peer.hpp"
#include "tests/integration/support/process.hpp"

namespace gpurdma::test {
namespace {

using testing::HasSubstr;

constexpr const char* demo = "buffers:\n  - { name: demo, memory: host, size: 4KiB, fill: \"R\" }\n";

std::unique_ptr<peer> connected(const protocol::session_token& token = protocol::no_session) {
  auto p = std::make_unique<peer>();
  p->resolve();
  EXPECT_TRUE(p->connect({.session = token}));
  return p;
}

protocol::session_token token_of(const peer& p) {
  const auto welcome = protocol::decode_welcome(p.answer());
  EXPECT_TRUE(welcome);
  return welcome ? welcome->session : protocol::no_session;
}

protocol::notice next_notice(peer& p) {
  const auto m = p.receive();
  const auto* const n = m ? std::get_if<protocol::notice>(&m->content) : nullptr;
  EXPECT_NE(n, nullptr) << "no notice came";
  return n != nullptr ? *n : protocol::notice{};
}

protocol::refusal refusal_of(const protocol::hello& h) {
  peer p;
  p.resolve();
  EXPECT_FALSE(p.connect(h));
  const auto refusal = protocol::decode_refusal(p.answer());
  EXPECT_TRUE(refusal);
  return refusal ? *refusal : protocol::refusal{};
}

TEST(Sessions, SpanConnections) {
  server_process server{demo};
  auto first = connected();
  const auto token = token_of(*first);
  const auto second = connected(token);
  EXPECT_EQ(token_of(*second), token);
  const auto of_first = first->open("demo");
  EXPECT_EQ(second->ask<protocol::renewed>(protocol::renew{of_first.id}).lease_id, of_first.id);
  const auto of_second = second->open("demo");
  EXPECT_EQ(second->read(of_second.address, of_second.rkey, 4096), IBV_WC_SUCCESS);
  first.reset();
  EXPECT_EQ(second->ask<protocol::released>(protocol::release{of_first.id, 0}).lease_id, of_first.id);
  EXPECT_EQ(second->read(of_second.address, of_second.rkey, 4096), IBV_WC_SUCCESS);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Sessions, GrantAndReleaseWhileAnotherConnectionIsTornDown) {
  server_process server{demo};
  for (int i = 0; i < 20; ++i) {
    auto first = connected();
    const auto second = connected(token_of(*first));
    first.reset();  // no word of it before the lease is asked for
    const auto lease = second->open("demo");
    EXPECT_EQ(second->read(lease.address, lease.rkey, 4096), IBV_WC_SUCCESS);
    EXPECT_EQ(second->ask<protocol::released>(protocol::release{lease.id, 0}).lease_id, lease.id);
  }
  EXPECT_EQ(server.stop(), 0);
}

TEST(Sessions, EndWithTheirLastConnection) {
  server_process server{demo};
  auto first = connected();
  const auto token = token_of(*first);
  first.reset();
  EXPECT_TRUE(server.program().wait_for("client_left"));
  EXPECT_EQ(refusal_of({.session = token}).code, protocol::errc::unknown_session);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Limits, OfClientsAndConnectionsAreNamedWhenReached) {
  server_process server{std::string{demo} + "limits: { clients: 2 }\n"};
  const auto first = connected();
  auto second = connected();
  const auto refusal = refusal_of({});
  EXPECT_EQ(refusal.code, protocol::errc::too_many_clients);
  EXPECT_THAT(refusal.sentence, HasSubstr("limit of 2 clients"));
  const auto reader = read_buffer(self_address() + "/demo");
  EXPECT_EQ(reader.status, 3);
  EXPECT_THAT(reader.err, HasSubstr("limit of 2 clients"));
  second.reset();
  ASSERT_TRUE(server.program().wait_for("client_left"));
  EXPECT_EQ(read_buffer(self_address() + "/demo").status, 0);
  const auto token = token_of(*first);
  std::vector<std::unique_ptr<peer>> more;
  for (int i = 1; i < 16; ++i) {
    more.push_back(connected(token));
  }
  EXPECT_EQ(refusal_of({.session = token}).code, protocol::errc::too_many_connections);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Leases, EndReadingWhenReleased) {
  server_process server{demo};
  const auto p = connected();
  const auto lease = p->open("demo");
  EXPECT_EQ(p->read(lease.address, lease.rkey, 4096), IBV_WC_SUCCESS);
  std::ignore = p->ask<protocol::released>(protocol::release{lease.id, 4096});
  EXPECT_NE(p->read(lease.address, lease.rkey, 4096), IBV_WC_SUCCESS);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Leases, ExpireUnlessRenewed) {
  server_process server{std::string{demo} + "lease: { duration: 4s }\n"};
  const auto p = connected();
  const auto lease = p->open("demo");
  EXPECT_LE(lease.duration_ms, 4000U);  // what was left of it when the answer was written
  EXPECT_GT(lease.duration_ms, 3000U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(p->receive(std::chrono::seconds{1}), std::nullopt);
    EXPECT_EQ(p->ask<protocol::renewed>(protocol::renew{lease.id}).lease_id, lease.id);
  }
  EXPECT_EQ(p->read(lease.address, lease.rkey, 4096), IBV_WC_SUCCESS);
  const auto notice = next_notice(*p);
  EXPECT_EQ(notice.kind, protocol::notice_kind::lease_revoked);
  EXPECT_EQ(notice.code, protocol::errc::lease_expired);
  EXPECT_EQ(notice.lease_id, lease.id);
  EXPECT_EQ(p->ask<protocol::error>(protocol::renew{lease.id}).code, protocol::errc::unknown_lease);
  EXPECT_NE(p->read(lease.address, lease.rkey, 4096), IBV_WC_SUCCESS);
  EXPECT_EQ(server.stop(), 0);
}

TEST(Leases, WithAKeyEachDieAlone) {
  server_process server{std::string{demo} + "security: { open: true, isolation: lease }\nlease: { duration: 3s }\n"};
  auto p = connected();
  const auto released = p->open("demo");
  const auto kept = p->open("demo");
  EXPECT_NE(released.rkey, kept.rkey);
  EXPECT_EQ(p->read(released.address, released.rkey, 4096), IBV_WC_SUCCESS);
  std::ignore = p->ask<protocol::released>(protocol::release{released.id, 4096});
  EXPECT_EQ(p->read(kept.address, kept.rkey, 4096), IBV_WC_SUCCESS);
  // The session may still read, and so it is the key that fails.
  EXPECT_EQ(p->read(released.address, released.rkey, 4096), IBV_WC_REM_ACCESS_ERR);
  p.reset();

  p = connected();
  const auto expiring = p->open("demo");
  EXPECT_EQ(p->receive(std::chrono::milliseconds{1500}), std::nullopt);
  const auto later = p->open("demo");
  EXPECT_EQ(next_notice(*p).lease_id, expiring.id);
  EXPECT_EQ(p->read(later.address, later.rkey, 4096), IBV_WC_SUCCESS);
  EXPECT_EQ(p->read(expiring.address, expiring.rkey, 4096), IBV_WC_REM_ACCESS_ERR);
  p.reset();
  EXPECT_EQ(server.stop(), 0);
}

TEST(Leases, KeepAReaderThatTakesLongerThanOne) {
  server_process server{
      "lease: { duration: 1s }\nbuffers:\n  - { name: large, memory: host, size: 96MiB, fill: counting }\n"};
  // Small chunks: on one host rxe does the transfer inside ibv_post_send.
  const auto read = read_buffer(self_address() + "/large", {"--size", "64KiB", "--depth", "2"});
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_THAT(read.out, HasSubstr("data OK"));
  EXPECT_EQ(server.stop(), 0);
}

TEST(Listing, ShowsEveryBufferInOrder) {
  std::string settings = "buffers:\n";
  std::string expected;
  for (int i = 10; i < 27; ++i) {
    const auto name = "b" + std::to_string(i);
    settings += "  - { name: " + name + ", memory: host, size: " + std::to_string(i) + ", fill: \"x\" }\n";
    expected += name + "      " + std::to_string(i) + "  1\n";
  }
  server_process server{settings};
  const auto shown = run({reader_program(), "--list", self_address()});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_EQ(shown.out, "NAME  BYTES  VERSION\n" + expected);
  EXPECT_EQ(server.stop(), 0);
}

/// Nanoseconds that a process has been running on a processor.
std::uint64_t processor_time(const process& of) {
  std::uint64_t nanoseconds = 0;
  std::ifstream{"/proc/" + std::to_string(of.pid()) + "/schedstat"} >> nanoseconds;
  return nanoseconds;
}

TEST(ProcessorTime, OfTheServerDoesNotGrowWithTheBytesRead) {
  server_process server{"buffers:\n  - { name: mib, memory: host, size: 1MiB, fill: counting }\n"};
  const auto spent = [&](int reads) {
    const auto before = processor_time(server.program());
    const auto left = server.program().count("client_left");
    auto p = connected();
    const auto lease = p->open("mib");
    for (int i = 0; i < reads; ++i) {
      EXPECT_EQ(p->read(lease.address, lease.rkey, 1U << 20U), IBV_WC_SUCCESS);
    }
    std::ignore = p->ask<protocol::released>(protocol::release{lease.id, 0});
    p.reset();
    EXPECT_TRUE(server.program().wait_for_count("client_left", left + 1));
    return processor_time(server.program()) - before;
  };
  std::ignore = spent(1);  // warm
  std::uint64_t once = 0;
  std::uint64_t many = 0;
  for (int i = 0; i < 5; ++i) {
    once += spent(1);
    many += spent(64);
  }
  RecordProperty("once_ns", std::to_string(once));
  RecordProperty("many_ns", std::to_string(many));
  EXPECT_GT(once, 0U);
  EXPECT_LT(many, 2 * once);
  EXPECT_EQ(server.stop(), 0);
}

}  // namespace
}  // namespace gpurdma::test
