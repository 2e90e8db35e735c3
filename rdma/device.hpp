#pragma once

// One RDMA device: what it can do, its completion queues, its asynchronous events.

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rdma/completion_queue.hpp"
#include "rdma/fd_watch.hpp"
#include "rdma/handles.hpp"

namespace gpurdma::rdma {

struct device_limits {
  std::uint32_t completion_queue_entries = 0;  ///< of one queue
  std::uint32_t work_requests = 0;             ///< of one queue pair's send or receive queue
  std::uint8_t reads_in = 0;                   ///< READs of a peer that a queue pair works on at once
  std::uint8_t reads_out = 0;                  ///< READs that a queue pair has under way at once
  std::uint8_t ports = 0;
};

/// Bytes of payload in one packet.
struct port_mtu {
  std::uint32_t active = 0;
  std::uint32_t most = 0;  ///< that the port could have
};

class device {
 public:
  using async_event_handler = std::function<void(const ibv_async_event&)>;

  /// `context` is librdmacm's. The handler is told each asynchronous event after it was acknowledged: only its type
  /// and a port number may be used. Throws std::system_error.
  device(boost::asio::io_context& io, ibv_context& context, async_event_handler on_async_event);
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  /// Nothing made from the device is left; only completion queues of which nothing is reserved.
  ~device();

  [[nodiscard]] std::string name() const { return ibv_get_device_name(context_->device); }
  [[nodiscard]] const device_limits& limits() const noexcept { return limits_; }
  [[nodiscard]] ibv_context& context() const noexcept { return *context_; }
  [[nodiscard]] work_request_table& work_requests() noexcept { return completions_->work_requests(); }

  /// Bytes of the longest message of `port` (1 is the first). Throws std::system_error.
  [[nodiscard]] std::size_t max_message_size(std::uint8_t port) const;
  /// Throws std::system_error.
  [[nodiscard]] port_mtu mtu(std::uint8_t port) const;
  /// Throws std::system_error.
  [[nodiscard]] protection_domain allocate_protection_domain();

  /// A queue with room for `entries` more completions, kept free for `owner`. Throws std::system_error.
  [[nodiscard]] completion_reservation reserve_completions(std::uint32_t entries, work_owner& owner);

  /// Waits for nothing any more.
  void close();

 private:
  void drain_async_events();

  ibv_context* context_;
  device_limits limits_;
  async_event_handler on_async_event_;
  std::unique_ptr<completion_queues> completions_;
  std::unique_ptr<fd_watch> async_watch_;
};

}  // namespace gpurdma::rdma
