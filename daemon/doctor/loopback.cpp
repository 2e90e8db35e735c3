#include "daemon/doctor/loopback.hpp"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>

#include "daemon/buffer_pool.hpp"
#include "daemon/registration_cache.hpp"
#include "memory/checksum.hpp"
#include "memory/host_memory.hpp"
#include "memory/loader.hpp"
#include "rdma/cm_event_channel.hpp"
#include "rdma/connection.hpp"
#include "rdma/error.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon::doctor {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::uint32_t read_size = 1U << 20U;  // every device's longest message is longer

/// Both ends of the connection, on a reactor of their own. Members are declared parent first.
class loopback final : private rdma::cm_event_handler {
 public:
  loopback(const rdma::endpoint& at, const buffer_config& what);
  loopback(const loopback&) = delete;
  loopback& operator=(const loopback&) = delete;
  ~loopback() { closers_.join(); }

  loopback_read run(std::chrono::milliseconds limit);

 private:
  struct end final : rdma::connection_handler {
    explicit end(loopback& of) : owner{of} {}
    void on_established(std::span<const std::byte> /*private_data*/) override { owner.on_established(*this); }
    void on_message(std::span<const std::byte> /*bytes*/) override {}
    void on_read_done(std::uint32_t /*tag*/, std::error_code result) override { owner.on_read_done(result); }
    void on_failed(std::error_code why, std::span<const std::byte> /*private_data*/) override {
      owner.finish("the connection failed while " + std::string{owner.doing_} + ": " + why.message());
    }
    void on_closed(std::uint32_t /*lost*/) override {
      --owner.open_;
      owner.end_if_empty();
    }

    loopback& owner;
    std::optional<rdma::connection> connection{};
  };

  void on_cm_event(const rdma::cm_event& event) override;
  void on_request(rdma::cm_id id, const rdma::cm_event& event);
  void on_established(const end& which);
  void on_read_done(std::error_code result);

  void make(end& which, rdma::cm_id&& id, std::uint32_t reads);
  void start_reads();
  /// Once; an empty `why` means that all was read.
  void finish(const std::string& why);
  void close_all();
  void end_if_empty();
  /// Runs what belongs to `what`; a failure finishes.
  template <typename Work>
  void attempt(Work work);

  boost::asio::io_context io_{1};
  rdma::workers closers_{io_, 1};
  rdma::cm_event_channel channel_{io_};
  std::unique_ptr<rdma::listener> listener_;
  std::unique_ptr<rdma::device> device_;
  principal_domain_ptr domain_;
  buffer_version_ptr version_;
  std::unique_ptr<registration> registered_;
  memory::host_memory target_;
  std::optional<rdma::memory_region> target_region_;
  end serving_{*this};
  end reading_{*this};
  rdma::cm_id resolving_;
  boost::asio::steady_timer timer_{io_};

  const char* doing_ = "resolving the address";
  int open_ = 0;  ///< connections not yet closed
  std::size_t reads_left_ = 0;
  clock::time_point started_;
  double seconds_ = 0;
  bool finished_ = false;
  bool closing_ = false;
  std::string why_;
};

loopback::loopback(const rdma::endpoint& at, const buffer_config& what) : target_{what.size} {
  listener_ = std::make_unique<rdma::listener>(
      channel_, at, [this](rdma::cm_id id, const rdma::cm_event& event) { on_request(std::move(id), event); });
  if (listener_->context() == nullptr) {
    throw std::runtime_error{"no RDMA device has the address " + at.to_string()};
  }
  device_ = std::make_unique<rdma::device>(io_, *listener_->context(), [](const ibv_async_event&) {});
  domain_ = std::make_shared<principal_domain>(principal_domain{
      .device = *device_, .principal = principal_id::anonymous, .domain = device_->allocate_protection_domain()});
  version_ = load_version(what, 1, std::stop_token{}, {});
  registered_ = std::make_unique<registration>(domain_, version_);
  target_region_.emplace(*domain_->domain, target_.address(), target_.size(), rdma::region_access::local_write);
}

loopback_read loopback::run(std::chrono::milliseconds limit) {
  timer_.expires_after(limit);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      finish("no answer in time while " + std::string{doing_});
    }
  });
  attempt([this, limit] {
    listener_->listen();
    resolving_ = channel_.create_id(*this);
    const auto to = listener_->bound();
    if (const auto why = rdma::check_errno(
            rdma_resolve_addr(resolving_.get(), nullptr, to.native(), static_cast<int>(limit.count())))) {
      rdma::fail(why, "cannot resolve " + to.to_string());
    }
  });
  io_.run();
  if (!why_.empty()) {
    throw std::runtime_error{why_};
  }
  const auto arrived = memory::checksum(target_, std::stop_token{});
  return {.measured = {.path = registered_->path(),
                       .bytes = target_.size(),
                       .seconds = seconds_,
                       .crc32c = memory::crc32c(target_.bytes())},
          .why = registered_->why(),
          .right = arrived == version_->checksums};
}

template <typename Work>
void loopback::attempt(Work work) {
  try {
    work();
  } catch (const std::exception& e) {
    finish(e.what());
  }
}

void loopback::make(end& which, rdma::cm_id&& id, std::uint32_t reads) {
  // No message is ever sent, but a queue pair has room for one.
  constexpr std::uint32_t message = 64;
  which.connection.emplace(
      io_, closers_, *device_, *domain_->domain, std::move(id),
      rdma::connection_settings{
          .receives = 1, .receive_size = message, .sends = 1, .send_size = message, .reads = reads},
      which);
  ++open_;
}

void loopback::on_cm_event(const rdma::cm_event& event) {
  if (finished_) {
    return;
  }
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      attempt([this] {
        constexpr int limit_ms = 2000;
        if (const auto why = rdma::check_errno(rdma_resolve_route(resolving_.get(), limit_ms))) {
          rdma::fail(why, "cannot resolve the route");
        }
      });
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      attempt([this] {
        doing_ = "connecting";
        const auto reads = static_cast<std::uint32_t>((target_.size() + read_size - 1) / read_size);
        make(reading_, std::move(resolving_), reads);
        const auto depth = static_cast<std::uint8_t>(std::min<std::uint32_t>(reads, device_->limits().reads_out));
        if (const auto why = reading_.connection->connect(depth, {})) {
          rdma::fail(why, "cannot connect");
        }
      });
      break;
    default:
      finish(std::string{rdma_event_str(event.type)} + " while " + doing_);
  }
}

void loopback::on_request(rdma::cm_id id, const rdma::cm_event& event) {
  if (finished_ || serving_.connection) {
    rdma::reject(*id, {});
    return;
  }
  attempt([&] {
    make(serving_, std::move(id), 0);
    auto why = serving_.connection->accept(std::min(event.responder_resources, device_->limits().reads_in), {});
    if (!why) {
      why = serving_.connection->allow_remote_read(true);
    }
    if (why) {
      rdma::fail(why, "cannot accept the connection");
    }
  });
}

void loopback::on_established(const end& which) {
  // The serving end reads nothing, and may hear of it later.
  if (&which == &reading_) {
    start_reads();
  }
}

void loopback::start_reads() {
  doing_ = "reading";
  started_ = clock::now();
  attempt([this] {
    for (std::size_t offset = 0; offset < target_.size(); offset += read_size) {
      const auto length = static_cast<std::uint32_t>(std::min<std::size_t>(read_size, target_.size() - offset));
      ++reads_left_;
      if (const auto why = reading_.connection->read(static_cast<std::uint32_t>(offset / read_size),
                                                     target_.address() + offset, target_region_->lkey(),
                                                     registered_->address() + offset, registered_->rkey(), length)) {
        rdma::fail(why, "cannot post a READ");
      }
    }
  });
}

void loopback::on_read_done(std::error_code result) {
  if (result) {
    finish("a READ failed: " + result.message());
  } else if (--reads_left_ == 0) {
    seconds_ = std::chrono::duration<double>{clock::now() - started_}.count();
    finish({});
  }
}

void loopback::finish(const std::string& why) {
  if (finished_) {
    return;
  }
  finished_ = true;
  why_ = why;
  timer_.cancel();
  // Not from inside the call of one of those that go.
  boost::asio::post(io_, [this] { close_all(); });
}

void loopback::close_all() {
  closing_ = true;
  resolving_.reset();
  listener_.reset();
  for (auto* const which : {&reading_, &serving_}) {
    if (which->connection) {
      which->connection->close();
    }
  }
  end_if_empty();
}

void loopback::end_if_empty() {
  if (closing_ && open_ == 0) {
    channel_.close();
    device_->close();
  }
}

}  // namespace

loopback_read read_over_loopback(const rdma::endpoint& at, const buffer_config& what, std::chrono::milliseconds limit) {
  return loopback{at, what}.run(limit);
}

}  // namespace gpurdma::daemon::doctor
