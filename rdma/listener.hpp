#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <functional>
#include <string>

#include "rdma/cm_event_channel.hpp"

namespace gpurdma::rdma {

/// An IP address and port, as people write it: "192.0.2.1:7471", "[2001:db8::1]:7471".
class endpoint {
 public:
  endpoint() = default;
  endpoint(const sockaddr& address, std::size_t size);
  /// Of the address alone; no name is looked up. Throws std::invalid_argument with a sentence.
  static endpoint parse(const std::string& address, std::uint16_t port);

  [[nodiscard]] sockaddr* native() const noexcept;
  [[nodiscard]] std::string to_string() const;

 private:
  mutable sockaddr_storage storage_{};
};

/// Takes requests to connect. A wildcard address spans all devices.
class listener final : private cm_event_handler {
 public:
  /// Owns the new id, whose `event` it also gets. To refuse, rdma_reject and let it go.
  using request_handler = std::function<void(cm_id id, const cm_event& event)>;

  /// Binds. Throws std::system_error: EADDRINUSE, EADDRNOTAVAIL, ENODEV (no RDMA device has this address).
  listener(cm_event_channel& channel, const endpoint& at, request_handler on_request);

  /// From now on requests come in. Throws std::system_error.
  void listen();

  [[nodiscard]] const endpoint& address() const noexcept { return address_; }
  /// The same, with the port that the CM chose where port 0 was asked for.
  [[nodiscard]] endpoint bound() const;
  /// The device that the address belongs to; null for a wildcard.
  [[nodiscard]] ibv_context* context() const noexcept { return id_->verbs; }

 private:
  void on_cm_event(const cm_event& event) override;
  void check(int result) const;

  endpoint address_;
  request_handler on_request_;
  cm_id id_;
};

/// The address of the peer of a connection id.
[[nodiscard]] endpoint peer_of(rdma_cm_id& id);

/// Refuses a request to connect. Private data of at most 148 bytes.
void reject(rdma_cm_id& id, std::span<const std::byte> private_data) noexcept;

}  // namespace gpurdma::rdma
