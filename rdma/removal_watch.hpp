#pragma once

// Learns that a device is being removed.

#include <cstdint>
#include <functional>

#include "rdma/cm_event_channel.hpp"
#include "rdma/listener.hpp"

namespace gpurdma::rdma {

/// Of a removal rdma_cm tells each id that is bound to the device; a listener on a wildcard address is not, and some
/// providers (Soft-RoCE) raise no asynchronous event. So one id is bound to an address of the device, for this alone.
class removal_watch final : private cm_event_handler {
 public:
  /// `on_removal` is called once at most, and may destroy this. Without an IP address of its own (InfiniBand), a device
  /// cannot be watched so, and its asynchronous events must do. Throws std::system_error where the device is out of
  /// order.
  removal_watch(cm_event_channel& channel, ibv_context& device, std::uint8_t ports, std::function<void()> on_removal);

  [[nodiscard]] bool watches() const noexcept { return id_ != nullptr; }

 private:
  void on_cm_event(const cm_event& event) override;
  bool bind(cm_event_channel& channel, ibv_context& device, const endpoint& at);

  std::function<void()> on_removal_;
  cm_id id_;
};

}  // namespace gpurdma::rdma
