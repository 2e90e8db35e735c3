#pragma once

// rdma_cm's event channel in the reactor.

#include <array>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "rdma/fd_watch.hpp"
#include "rdma/handles.hpp"

namespace gpurdma::rdma {

/// A copy of an event that has been acknowledged, so that its id may be destroyed at once: rdma_destroy_id would
/// wait for the acknowledgement, and a reactor with one thread would wait for itself.
struct cm_event {
  rdma_cm_event_type type{};
  int status = 0;  ///< of REJECTED: the CM's reason; else 0 or a negated errno
  rdma_cm_id* id = nullptr;
  std::uint8_t responder_resources = 0;  ///< the peer's initiator depth
  std::uint8_t initiator_depth = 0;      ///< the peer's responder resources
  std::array<std::byte, 256> private_data_bytes{};
  std::size_t private_data_size = 0;

  /// Zero-padded by the CM to the most that the event can carry.
  [[nodiscard]] std::span<const std::byte> private_data() const noexcept {
    return std::span{private_data_bytes}.first(private_data_size);
  }
};

class cm_event_handler {
 public:
  virtual void on_cm_event(const cm_event& event) = 0;

 protected:
  ~cm_event_handler() = default;
};

/// Every id of the channel has a cm_event_handler as its context, which outlives it. A request to connect goes to
/// the listener's handler, which then owns `event.id`.
class cm_event_channel {
 public:
  /// Throws std::system_error; ENODEV where the machine has no RDMA device.
  explicit cm_event_channel(boost::asio::io_context& io);
  cm_event_channel(const cm_event_channel&) = delete;
  cm_event_channel& operator=(const cm_event_channel&) = delete;
  ~cm_event_channel();

  /// A new id whose events go to `handler`. Throws std::system_error.
  [[nodiscard]] cm_id create_id(cm_event_handler& handler);
  static void set_handler(rdma_cm_id& id, cm_event_handler& handler) noexcept;

  /// No handler is called any more; the reactor no longer waits for the channel. Ids may still be destroyed.
  void close();

 private:
  void drain();

  event_channel_handle channel_;
  std::unique_ptr<fd_watch> watch_;
};

}  // namespace gpurdma::rdma
