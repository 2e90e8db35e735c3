// Peers that do not keep to the protocol: each costs only its own session, and every count of resources returns.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "tests/integration/support/peer.hpp"
#include "tests/integration/support/process.hpp"

namespace gpurdma::test {
namespace {

using testing::AnyOf;
using testing::Eq;
using testing::HasSubstr;

class Hostile : public testing::Test {
 protected:
  Hostile() {
    // What the first client makes and all share is there from now on; this process's own use of the device as well.
    EXPECT_EQ(read_buffer(target).out, good);
    std::ignore = connected();
    EXPECT_TRUE(server.program().wait_for_count("client_left", 2));
    resources = rdma_resources();
    descriptors = server.program().descriptors();
  }
  ~Hostile() override {
    EXPECT_TRUE(resources_return_to(resources));
    EXPECT_TRUE(descriptors_return_to(server.program(), descriptors));
    EXPECT_EQ(read_buffer(target).out, good);
    EXPECT_EQ(server.stop(), 0);
    EXPECT_THAT(server.program().err(), Not(HasSubstr("work_requests_lost")));
  }

  std::vector<std::byte> random_bytes(std::size_t size) {
    std::vector<std::byte> bytes(size);
    for (auto& b : bytes) {
      b = static_cast<std::byte>(random());
    }
    return bytes;
  }

  std::unique_ptr<peer> connected(peer::options o = {}) {
    auto p = std::make_unique<peer>(o);
    p->resolve();
    EXPECT_TRUE(p->connect());
    return p;
  }

  /// Whether the server hangs up on `p`, and `code` is its last word.
  static void expect_hang_up(peer& p, protocol::errc code) {
    bool said = false;
    while (const auto m = p.receive()) {
      const auto* const e = std::get_if<protocol::error>(&m->content);
      if (e != nullptr && m->request_id == 0) {
        EXPECT_EQ(e->code, code);
        said = true;
      }
    }
    EXPECT_TRUE(said);
    EXPECT_TRUE(p.is_lost());
  }

  std::mt19937 random{7471};  // the same bytes in every run
  const std::string target = self_address() + "/demo";
  const std::string good = "read 4096 bytes, data OK\n";
  server_process server{
      "keepalive: { interval: 1s, timeout: 3s }\nlimits: { leases_per_client: 4 }\n"
      "buffers:\n  - { name: demo, memory: host, size: 4KiB, fill: \"R\" }\n"};
  std::string resources;
  std::size_t descriptors = 0;
};

TEST_F(Hostile, RandomPrivateData) {
  for (int i = 0; i < 60; ++i) {
    peer p;
    p.resolve();
    auto bytes = i % 2 == 0 ? random_bytes(random() % 57) : protocol::encode(protocol::hello{});
    if (i % 2 == 1) {
      bytes.resize(random() % bytes.size());  // cut short; the CM pads it with zeros
    }
    if (p.connect(bytes)) {
      // Only a hello cut within its zeros is a whole hello.
      EXPECT_EQ(i % 2, 1);
      continue;
    }
    const auto refusal = protocol::decode_refusal(p.answer());
    ASSERT_TRUE(refusal);
    EXPECT_THAT(refusal->code, AnyOf(Eq(protocol::errc::wrong_magic), Eq(protocol::errc::malformed_handshake)));
  }
}

TEST_F(Hostile, RandomMessages) {
  for (int i = 0; i < 30; ++i) {
    const auto p = connected();
    p->send(random_bytes(1 + random() % protocol::max_request_size));
    expect_hang_up(*p, protocol::errc::malformed_message);
  }
}

TEST_F(Hostile, TruncatedMessages) {
  const auto whole = protocol::encode({1, protocol::open{.name = "demo"}});
  for (std::size_t size = 1; size < whole.size(); size += 7) {
    const auto p = connected();
    p->send(std::span{whole}.first(size));
    expect_hang_up(*p, protocol::errc::malformed_message);
  }
}

TEST_F(Hostile, AMessageLongerThanTheServersReceives) {
  const auto p = connected();
  p->send(random_bytes(protocol::max_request_size + 1));
  EXPECT_TRUE(p->is_lost());
}

TEST_F(Hostile, AnswersAndNoticesFromAClient) {
  for (const protocol::body& wrong : {protocol::body{protocol::lease{}}, protocol::body{protocol::released{}},
                                      protocol::body{protocol::notice{}}, protocol::body{protocol::error{}}}) {
    const auto p = connected();
    p->send(1, wrong);
    expect_hang_up(*p, protocol::errc::unexpected_message);
  }
}

TEST_F(Hostile, RequestIdZero) {
  const auto p = connected();
  p->send(0, protocol::list{});
  expect_hang_up(*p, protocol::errc::unexpected_message);
}

TEST_F(Hostile, RequestsOutOfOrderAreRefusedAndCostNothingElse) {
  const auto p = connected();
  EXPECT_EQ(p->ask<protocol::error>(protocol::release{.lease_id = 1}).code, protocol::errc::unknown_lease);
  EXPECT_EQ(p->ask<protocol::error>(protocol::renew{.lease_id = 77}).code, protocol::errc::unknown_lease);
  EXPECT_EQ(p->ask<protocol::error>(protocol::get_checksums{1, 0, 1}).code, protocol::errc::unknown_lease);
  const auto lease = p->open("demo");
  EXPECT_EQ(p->ask<protocol::error>(protocol::get_checksums{lease.id, 1, 1}).code,
            protocol::errc::range_outside_buffer);
  EXPECT_EQ(p->ask<protocol::error>(protocol::get_checksums{lease.id, ~std::uint64_t{0}, 2}).code,
            protocol::errc::range_outside_buffer);
  EXPECT_EQ(p->ask<protocol::released>(protocol::release{.lease_id = lease.id}).lease_id, lease.id);
  EXPECT_EQ(p->ask<protocol::error>(protocol::release{.lease_id = lease.id}).code, protocol::errc::unknown_lease);
}

TEST_F(Hostile, TheLeaseOfAnotherSession) {
  const auto owner = connected();
  const auto lease = owner->open("demo");
  const auto thief = connected();
  EXPECT_EQ(thief->ask<protocol::error>(protocol::release{.lease_id = lease.id}).code, protocol::errc::unknown_lease);
  EXPECT_EQ(owner->ask<protocol::renewed>(protocol::renew{lease.id}).lease_id, lease.id);
}

TEST_F(Hostile, MoreLeasesThanAllowed) {
  const auto p = connected();
  for (int i = 0; i < 4; ++i) {
    std::ignore = p->open("demo");
  }
  const auto refused = p->ask<protocol::error>(protocol::open{.name = "demo"});
  EXPECT_EQ(refused.code, protocol::errc::too_many_leases);
  EXPECT_THAT(refused.sentence, HasSubstr("4"));
}

TEST_F(Hostile, ThousandsOfRequestsWithoutReadingAnswers) {
  const auto p = connected({.receives = 0, .rnr_retries = 7});
  for (std::uint32_t i = 1; i <= 5000; ++i) {
    p->send(i, protocol::open{.name = "demo"});
  }
  EXPECT_TRUE(p->is_lost());
  EXPECT_TRUE(server.program().wait_for("client_dropped"));
}

TEST_F(Hostile, ThousandsOfPings) {
  const auto p = connected({.receives = 0, .rnr_retries = 7});
  for (std::uint32_t i = 1; i <= 5000; ++i) {
    p->send(i, protocol::ping{});
  }
  EXPECT_TRUE(p->is_lost());
}

TEST_F(Hostile, SayingNothing) {
  const auto p = connected();
  EXPECT_TRUE(p->is_lost());  // it answers no ping, for nobody calls receive()
  EXPECT_TRUE(server.program().wait_for("nothing was heard from the peer for too long"));
}

TEST_F(Hostile, NoReceivePosted) {
  const auto p = connected({.receives = 0, .rnr_retries = 7});
  p->send(1, protocol::list{});
  EXPECT_TRUE(p->is_lost());
}

TEST_F(Hostile, AnsweringPingsKeepsAConnection) {
  const auto p = connected();
  EXPECT_EQ(p->receive(std::chrono::seconds{8}), std::nullopt);  // answers pings meanwhile
  EXPECT_EQ(p->ask<protocol::listing>(protocol::list{}).entries.size(), 1U);
}

TEST_F(Hostile, ForeignSessionTokens) {
  for (int i = 0; i < 10; ++i) {
    peer p;
    p.resolve();
    protocol::hello h;
    const auto bytes = random_bytes(h.session.size());
    std::copy(bytes.begin(), bytes.end(), h.session.begin());
    ASSERT_FALSE(p.connect(h));
    const auto refusal = protocol::decode_refusal(p.answer());
    ASSERT_TRUE(refusal);
    EXPECT_EQ(refusal->code, protocol::errc::unknown_session);
  }
}

}  // namespace
}  // namespace gpurdma::test
