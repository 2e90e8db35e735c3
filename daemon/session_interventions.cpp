// What happens to a session from outside: by an operator, a reload, or the loss of a device or a GPU.

#include <algorithm>
#include <chrono>

#include "daemon/client_connection.hpp"
#include "daemon/session.hpp"
#include "rdma/error.hpp"

namespace gpurdma::daemon {

void session::on_retired(const retired_version& what) {
  for (auto& [id, l] : leases_) {
    if (&l.registration->version() == what.version.get()) {
      l.expires = std::min(l.expires, what.until);
      tell({.kind = protocol::notice_kind::buffer_replaced,
            .code = what.replaced ? protocol::errc::version_replaced : protocol::errc::buffer_unavailable,
            .lease_id = id,
            .sentence = what.replaced ? "the buffer has a newer version; this one can be read for " +
                                            std::to_string(milliseconds_until(what.until)) + " ms more"
                                      : "the buffer is to be gone; it can be read for " +
                                            std::to_string(milliseconds_until(what.until)) + " ms more"});
    }
  }
  arm_expiry();
}

std::vector<std::uint64_t> session::revoke(const memory::gpu& gpu) {
  std::vector<std::uint64_t> revoked;
  for (auto next = leases_.begin(); next != leases_.end();) {
    const auto current = next++;
    if (current->second.registration->version().gpu.get() == &gpu) {
      revoked.push_back(current->first);
      end_lease(current, "revoked", [] {});
    }
  }
  arm_expiry();
  return revoked;
}

void session::tell_revoked(const std::vector<std::uint64_t>& leases, const std::string& why) {
  for (const auto id : leases) {
    tell({.kind = protocol::notice_kind::lease_revoked,
          .code = protocol::errc::buffer_unavailable,
          .lease_id = id,
          .sentence = why});
  }
}

void session::on_device_lost(const rdma::device& device) {
  for (const auto& c : std::vector{connections_}) {
    if (&c->device() == &device) {
      c->close(rdma::connection_error::device_removed);
    }
  }
}

void session::expel() {
  leaving_ = true;
  const auto why = protocol::errc::dropped_by_operator;
  for (const auto& [id, l] : leases_) {
    tell({.kind = protocol::notice_kind::lease_revoked,
          .code = why,
          .lease_id = id,
          .sentence = "an operator dropped this client"});
  }
  // At once, for what was sent may take a while to arrive.
  while (!leases_.empty()) {
    end_lease(leases_.begin(), "client dropped", [] {});
  }
  expiry_.cancel();
  for (const auto& c : std::vector{connections_}) {
    c->close_after_sends(make_error_code(why));
  }
}

client_view session::view() const {
  const auto now = lease::clock::now();
  client_view seen{.number = number_,
                   .peer = peer_,
                   .connections = connections_.size(),
                   .queue_pairs = {},
                   .leases = {},
                   .leases_granted = leases_granted_,
                   .bytes_read = bytes_read_,
                   .connected = std::chrono::duration_cast<std::chrono::milliseconds>(now - since_)};
  for (const auto& c : connections_) {
    seen.queue_pairs.push_back(c->queue_pair());
  }
  for (const auto& [id, l] : leases_) {
    const auto& version = l.registration->version();
    seen.leases.push_back({id, version.name, version.version, l.length,
                           std::chrono::duration_cast<std::chrono::milliseconds>(l.expires - now)});
  }
  return seen;
}

}  // namespace gpurdma::daemon
