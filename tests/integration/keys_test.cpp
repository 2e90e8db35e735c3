// What the daemon has no second principal for yet: keys across protection domains, with its own registration cache.

#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <memory>
#include <thread>

#include "daemon/client_connection.hpp"
#include "daemon/registration_cache.hpp"
#include "rdma/listener.hpp"
#include "tests/integration/support/peer.hpp"

namespace gpurdma::test {
namespace {

constexpr std::uint16_t port = 7999;

daemon::principal_domain_ptr domain_of(rdma::device& device, std::uint64_t principal) {
  return std::make_shared<daemon::principal_domain>(
      daemon::principal_domain{.device = device,
                               .principal = static_cast<daemon::principal_id>(principal),
                               .domain = device.allocate_protection_domain()});
}

/// Accepts one client into `domain` and lets it read.
class one_client final : private rdma::connection_handler {
 public:
  one_client(boost::asio::io_context& io, rdma::workers& workers, rdma::cm_event_channel& channel,
             daemon::principal_domain_ptr domain)
      : listener_{channel, rdma::endpoint::parse(self_address(), port),
                  [this, &io, &workers, domain](rdma::cm_id id, const rdma::cm_event&) {
                    connection_ = std::make_unique<rdma::connection>(
                        io, workers, domain->device, *domain->domain, std::move(id),
                        daemon::server_connection_settings(), static_cast<rdma::connection_handler&>(*this));
                    EXPECT_FALSE(connection_->accept(16, protocol::encode(protocol::welcome{})));
                  }} {
    listener_.listen();
  }
  void wait_until_it_may_read() { may_read_.get_future().wait(); }
  void close() {
    if (connection_) {
      connection_->close();
    }
  }

 private:
  void on_established(std::span<const std::byte>) override {
    EXPECT_FALSE(connection_->allow_remote_read(true));
    may_read_.set_value();
  }
  void on_message(std::span<const std::byte>) override {}
  void on_read_done(std::uint32_t, std::error_code) override {}
  void on_failed(std::error_code, std::span<const std::byte>) override {}
  void on_closed(std::uint32_t lost) override {
    EXPECT_EQ(lost, 0U);
    connection_.reset();
  }

  std::promise<void> may_read_;
  rdma::listener listener_;
  std::unique_ptr<rdma::connection> connection_;
};

TEST(Keys, OfOnePrincipalAreUselessOnAnothersQueuePair) {
  boost::asio::io_context io{1};
  rdma::workers workers{io, 1};
  rdma::cm_event_channel channel{io};
  ibv_context** const contexts = rdma_get_devices(nullptr);
  ASSERT_NE(contexts, nullptr);
  auto device = std::make_unique<rdma::device>(io, *contexts[0], [](const ibv_async_event&) {});
  rdma_free_devices(contexts);
  const auto own = domain_of(*device, 1);
  const auto foreign = domain_of(*device, 2);
  const auto version = daemon::load_version({.name = "demo", .size = 4096, .source = memory::byte_fill{std::byte{'R'}}},
                                            1, std::stop_token{});

  daemon::registration_cache cache{workers, workers, daemon::isolation::principal, std::stop_token{}};
  std::promise<std::uint32_t> own_key;
  std::promise<std::uint32_t> foreign_key;
  auto own_key_there = own_key.get_future();
  auto foreign_key_there = foreign_key.get_future();
  std::unique_ptr<one_client> client;
  boost::asio::post(io, [&] {
    client = std::make_unique<one_client>(io, workers, channel, own);
    cache.acquire(own, version, [&](const daemon::registration_ptr& r, const auto&) { own_key.set_value(r->rkey()); });
    cache.acquire(foreign, version,
                  [&](const daemon::registration_ptr& r, const auto&) { foreign_key.set_value(r->rkey()); });
  });
  std::thread reactor{[&] { io.run(); }};

  const auto mine = own_key_there.get();
  const auto theirs = foreign_key_there.get();
  EXPECT_NE(mine, theirs);
  {
    peer p;
    p.resolve(self_address(), port);
    ASSERT_TRUE(p.connect());
    client->wait_until_it_may_read();
    EXPECT_EQ(p.read(version->memory->address(), mine, 4096), IBV_WC_SUCCESS);
    EXPECT_EQ(p.data()[4095], std::byte{'R'});
    EXPECT_EQ(p.read(version->memory->address(), theirs, 4096), IBV_WC_REM_ACCESS_ERR);
  }
  boost::asio::post(io, [&] {
    client->close();
    cache.clear();
    channel.close();
    device->close();
  });
  reactor.join();
  client.reset();
  workers.join();
}

}  // namespace
}  // namespace gpurdma::test
