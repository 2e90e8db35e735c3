#include "rdma/listener.hpp"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <array>
#include <bit>
#include <stdexcept>
#include <utility>

#include "rdma/error.hpp"

namespace gpurdma::rdma {
namespace {

std::string explain(const std::error_code& why) {
  if (why == std::errc::address_not_available) {
    // rdma_cm says the same of both (measured, kernel 6.1).
    return ": another process listens there, or no RDMA device has this address (see `rdma resource show cm_id`, "
           "`rdma link` and `ip address`)";
  }
  if (why == std::errc::no_such_device) {
    return ": no RDMA device has this address (see `rdma link` and `ip address`)";
  }
  if (why == std::errc::address_in_use) {
    return ": another process listens there";
  }
  return {};
}

}  // namespace

endpoint::endpoint(const sockaddr& address, std::size_t size) {
  std::copy_n(std::bit_cast<const std::byte*>(&address), std::min(size, sizeof storage_),
              std::bit_cast<std::byte*>(&storage_));
}

endpoint endpoint::parse(const std::string& address, std::uint16_t port) {
  // For getaddrinfo "7471" is 0.0.29.47 too, and "*" the loopback address.
  in_addr v4{};
  if (address.find('\0') != std::string::npos ||
      (address.find(':') == std::string::npos && inet_pton(AF_INET, address.c_str(), &v4) != 1)) {
    throw std::invalid_argument{"'" + address + "' is no IP address"};
  }
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0) {
    throw std::invalid_argument{"'" + address + "' is no IP address"};
  }
  const endpoint parsed{*found->ai_addr, found->ai_addrlen};
  freeaddrinfo(found);
  return parsed;
}

sockaddr* endpoint::native() const noexcept { return std::bit_cast<sockaddr*>(&storage_); }

std::string endpoint::to_string() const {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const bool v6 = storage_.ss_family == AF_INET6;
  const auto size = static_cast<socklen_t>(v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
  if (getnameinfo(native(), size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "unknown";
  }
  return (v6 ? "[" + std::string{host.data()} + "]" : std::string{host.data()}) + ":" + port.data();
}

listener::listener(cm_event_channel& channel, const endpoint& at, request_handler on_request)
    : address_{at}, on_request_{std::move(on_request)}, id_{channel.create_id(*this)} {
  // An IPv6 wildcard would else take the IPv4 port as well, and "0.0.0.0" beside "::" would clash.
  int v6_only = 1;
  if (at.native()->sa_family == AF_INET6) {
    check(rdma_set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &v6_only, sizeof v6_only));
  }
  check(rdma_bind_addr(id_.get(), at.native()));
}

void listener::listen() {
  constexpr int backlog = 1024;
  check(rdma_listen(id_.get(), backlog));
}

endpoint listener::bound() const {
  const auto& address = *rdma_get_local_addr(id_.get());
  return {address, address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)};
}

void listener::check(int result) const {
  if (const auto why = check_errno(result)) {
    fail(why, "cannot listen on " + address_.to_string() + explain(why));
  }
}

void listener::on_cm_event(const cm_event& event) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    on_request_(cm_id{event.id}, event);
  }
}

endpoint peer_of(rdma_cm_id& id) {
  const auto& address = *rdma_get_peer_addr(&id);
  return {address, address.sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in)};
}

void reject(rdma_cm_id& id, std::span<const std::byte> private_data) noexcept {
  rdma_reject(&id, private_data.data(), static_cast<std::uint8_t>(private_data.size()));
}

}  // namespace gpurdma::rdma
