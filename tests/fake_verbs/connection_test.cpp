// One connection by itself: what it promises about memory when work requests do not come home.

#include "rdma/connection.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "memory/host_memory.hpp"
#include "rdma/error.hpp"
#include "rdma/listener.hpp"
#include "support.hpp"

namespace gpurdma::test {
namespace {

using fake_verbs::call;
using fake_verbs::host;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using namespace std::chrono_literals;

/// So long that a test that has to wait for it does not end.
constexpr std::chrono::hours never{1};

constexpr std::uint32_t receives = 4;

/// What a connection told its owner.
struct told final : rdma::connection_handler {
  void on_established(std::span<const std::byte>) override { ++established; }
  void on_message(std::span<const std::byte> bytes) override { messages.emplace_back(bytes.begin(), bytes.end()); }
  void on_read_done(std::uint32_t tag, std::error_code result) override { reads.emplace_back(tag, result); }
  void on_failed(std::error_code why, std::span<const std::byte>) override { failures.push_back(why); }
  void on_closed(std::uint32_t lost) override { closed = lost; }

  int established = 0;
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::pair<std::uint32_t, std::error_code>> reads;
  std::vector<std::error_code> failures;
  std::optional<std::uint32_t> closed;  ///< how many were lost
};

/// What a connection needs on one host, and the connection.
struct side {
  side(boost::asio::io_context& io, fake_verbs::world& fake, host at) : io_{io}, closers{io, 1} {
    fake.act_as(at);
    channel.emplace(io);
  }
  ~side() { closers.join(); }

  void make(rdma::cm_id id, std::chrono::milliseconds drain_limit) {
    device.emplace(io_, *id->verbs, [](const ibv_async_event&) {});
    domain = device->allocate_protection_domain();
    memory.emplace(std::size_t{1} << 16U);
    region.emplace(*domain, memory->address(), memory->size(), rdma::region_access::local_write);
    open.emplace(io_, closers, *device, *domain, std::move(id),
                 rdma::connection_settings{.receives = receives,
                                           .receive_size = 64,
                                           .sends = 2,
                                           .send_size = 64,
                                           .queued_sends = 1,
                                           .reads = 3,
                                           .drain_limit = drain_limit},
                 events);
  }
  void give_up() {
    channel->close();
    if (device) {
      device->close();
    }
  }

  boost::asio::io_context& io_;
  rdma::workers closers;
  std::optional<rdma::cm_event_channel> channel;
  std::optional<rdma::device> device;
  rdma::protection_domain domain;
  std::optional<memory::host_memory> memory;
  std::optional<rdma::memory_region> region;
  told events;
  std::optional<rdma::connection> open;
};

class connection : public over_fake_verbs, private rdma::cm_event_handler {
 protected:
  /// Both ends, connected.
  void connect(std::chrono::milliseconds drain_limit) {
    const auto at = rdma::endpoint::parse(fake_verbs::server_address, port);
    server = std::make_unique<side>(io, fake, host::server);
    client = std::make_unique<side>(io, fake, host::client);
    listener = std::make_unique<rdma::listener>(*server->channel, at, [=, this](rdma::cm_id id, const auto&) {
      server->make(std::move(id), drain_limit);
      EXPECT_FALSE(server->open->accept(1, {}));
    });
    listener->listen();
    resolving_ = client->channel->create_id(*this);
    ASSERT_EQ(rdma_resolve_addr(resolving_.get(), nullptr, at.native(), 1), 0);
    run_until([&] { return resolved_; });
    client->make(std::move(resolving_), drain_limit);
    ASSERT_FALSE(client->open->connect(1, {}));
    run_until([&] { return server->events.established == 1 && client->events.established == 1; });
  }

  void run_until(const std::function<bool()>& done) {
    while (!done()) {
      ASSERT_NE(io.run_one_for(10s), 0U);
    }
  }

  void read(std::uint32_t tag) {
    ASSERT_FALSE(client->open->read(tag, client->memory->address(), client->region->lkey(), 0, 0, 16));
  }

  void end() {
    for (auto* const s : {client.get(), server.get()}) {
      s->open->close();
      run_until([&] { return s->events.closed.has_value(); });
      s->give_up();
    }
    listener.reset();
    io.run();
    client.reset();
    server.reset();
  }

  boost::asio::io_context io{1};
  std::unique_ptr<side> server;
  std::unique_ptr<side> client;
  std::unique_ptr<rdma::listener> listener;

 private:
  void on_cm_event(const rdma::cm_event& event) override {
    if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED) {
      ASSERT_EQ(rdma_resolve_route(resolving_.get(), 1), 0);
    } else {
      resolved_ = event.type == RDMA_CM_EVENT_ROUTE_RESOLVED;
    }
  }
  rdma::cm_id resolving_;
  bool resolved_ = false;
};

TEST_F(connection, that_flushes_loses_nothing) {
  connect(never);
  fake.hold_reads(host::client);
  read(1);
  read(2);
  client->open->close();
  run_until([&] { return client->events.closed.has_value(); });
  EXPECT_EQ(client->events.closed, 0U);
  const auto flushed = rdma::make_error_code_of(IBV_WC_WR_FLUSH_ERR);
  EXPECT_THAT(client->events.reads, ElementsAre(Pair(1, flushed), Pair(2, flushed)));
  EXPECT_THAT(client->events.failures, IsEmpty());
  end();
}

TEST_F(connection, that_never_flushes_is_closed_after_the_deadline_and_counts_what_is_lost) {
  connect(20ms);
  fake.hold_reads(host::client);
  fake.never_flush(host::client);
  read(1);
  read(2);
  client->open->close();
  // Until then the adapter may write to whatever is posted; that nothing of it goes is in the fake's books.
  EXPECT_EQ(fake.live(host::client, "queue pair"), 1U);
  EXPECT_EQ(fake.live(host::client, "memory region"), 2U);
  run_until([&] { return client->events.closed.has_value(); });
  EXPECT_EQ(client->events.closed, receives + 2);
  EXPECT_EQ(fake.live(host::client, "queue pair"), 0U);
  EXPECT_EQ(fake.live(host::client, "memory region"), 1U);
  EXPECT_THAT(client->events.reads, IsEmpty());
  EXPECT_EQ(client->device->work_requests().size(), 0U);
  end();
}

TEST_F(connection, whose_queue_pair_does_not_go_into_error_is_destroyed_at_once) {
  connect(never);
  fake.fail(call::ibv_modify_qp, host::server, 1, EIO);
  fake.fail(call::rdma_disconnect, host::server, 1, EIO);
  server->open->close();
  run_until([&] { return server->events.closed.has_value(); });
  EXPECT_EQ(server->events.closed, receives);
  end();
}

TEST_F(connection, whose_completion_queue_fails_is_closed_at_once) {
  connect(never);
  fake.fail(call::ibv_poll_cq, host::client, 1, EIO, fake_verbs::world::for_ever);
  fake.wake_spuriously(host::client);
  run_until([&] { return client->events.closed.has_value(); });
  EXPECT_THAT(client->events.failures, ElementsAre(std::make_error_code(std::errc::io_error)));
  EXPECT_EQ(client->events.closed, receives);
  end();
}

TEST_F(connection, that_drains_when_its_completion_queue_fails_waits_no_longer) {
  connect(never);
  fake.never_flush(host::client);
  client->open->close();
  fake.fail(call::ibv_poll_cq, host::client, 1, EIO);
  fake.wake_spuriously(host::client);
  run_until([&] { return client->events.closed.has_value(); });
  EXPECT_THAT(client->events.failures, IsEmpty());
  EXPECT_EQ(client->events.closed, receives);
  end();
}

TEST_F(connection, that_is_closing_heeds_no_event) {
  connect(20ms);
  fake.never_flush(host::client);
  client->open->close();
  for (const auto type :
       {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_REJECTED, RDMA_CM_EVENT_UNREACHABLE, RDMA_CM_EVENT_CONNECT_ERROR,
        RDMA_CM_EVENT_DISCONNECTED, RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_TIMEWAIT_EXIT}) {
    fake.deliver(type, host::client);
  }
  run_until([&] { return client->events.closed.has_value(); });
  EXPECT_EQ(client->events.established, 1);
  EXPECT_THAT(client->events.failures, IsEmpty());
  end();
}

TEST_F(connection, that_cannot_post_its_answer_to_a_completion_fails) {
  connect(never);
  // The third message waits for a SEND to complete, and can then not be posted.
  fake.fail(call::ibv_post_send, host::client, 3, ENOMEM);
  const std::array<std::byte, 8> message{};
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(client->open->send(message));
  }
  run_until([&] { return client->events.closed.has_value(); });
  EXPECT_THAT(client->events.failures, ElementsAre(std::error_code{ENOMEM, std::system_category()}));
  EXPECT_EQ(client->events.closed, 0U);
  end();
}

TEST_F(connection, whose_peer_has_no_receive_left_reports_that_sends_and_queue_are_full) {
  connect(never);
  fake.fail(call::ibv_post_recv, host::server, 1, ENOMEM, fake_verbs::world::for_ever);
  const std::array<std::byte, 8> message{};
  std::error_code why;
  for (std::uint32_t sent = 0; !why && sent < 20; ++sent) {
    why = client->open->send(message);
  }
  EXPECT_EQ(why, std::errc::no_buffer_space);
  end();
}

TEST_F(connection, reads_a_dma_buf_of_its_peer) {
  connect(never);
  constexpr std::uint64_t iova = 0x7000'0010;
  constexpr off_t offset = 16;
  constexpr std::array bytes{std::byte{1}, std::byte{2}, std::byte{3}};
  const int fd = memfd_create("dma-buf", MFD_CLOEXEC);
  ASSERT_EQ(pwrite(fd, bytes.data(), bytes.size(), offset), 3);
  auto* const region = ibv_reg_dmabuf_mr(server->domain.get(), offset, bytes.size(), iova, fd, IBV_ACCESS_REMOTE_READ);
  ::close(fd);  // the registration holds it
  ASSERT_FALSE(server->open->allow_remote_read(true));
  ASSERT_FALSE(
      client->open->read(7, client->memory->address(), client->region->lkey(), iova, region->rkey, bytes.size()));
  run_until([&] { return !client->events.reads.empty(); });
  EXPECT_THAT(client->events.reads, ElementsAre(Pair(7, std::error_code{})));
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), client->memory->bytes().begin()));
  server->open->close();
  run_until([&] { return server->events.closed.has_value(); });
  ibv_dereg_mr(region);
  end();
}

TEST_F(connection, reports_that_access_cannot_be_changed) {
  connect(never);
  fake.fail(call::ibv_modify_qp, host::server, 1, EINVAL);
  EXPECT_EQ(server->open->allow_remote_read(true), std::errc::invalid_argument);
  end();
}

}  // namespace
}  // namespace gpurdma::test
