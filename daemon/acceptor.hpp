#pragma once

// Admission: who asks to connect, and which session that is.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/device_set.hpp"
#include "daemon/session.hpp"
#include "protocol/handshake.hpp"
#include "rdma/cm_event_channel.hpp"
#include "rdma/listener.hpp"

namespace gpurdma::daemon {

class acceptor {
 public:
  /// Binds the addresses of the settings. `on_session_end` is called when a session is gone. Throws std::system_error.
  acceptor(serving& with, rdma::cm_event_channel& channel, device_set& devices, std::function<void()> on_session_end);
  acceptor(const acceptor&) = delete;
  acceptor& operator=(const acceptor&) = delete;
  ~acceptor();

  /// Adds the devices that the addresses belong to: for a wildcard, all. Throws std::system_error.
  void add_devices();
  /// From now on clients come in. Throws std::system_error.
  void listen();
  /// No new client comes in any more.
  void stop_listening() { listeners_.clear(); }

  [[nodiscard]] std::vector<std::string> addresses() const;
  /// A copy, for what is done to sessions may end some.
  [[nodiscard]] std::vector<std::shared_ptr<session>> sessions() const;
  [[nodiscard]] std::size_t clients() const noexcept { return sessions_.size(); }

 private:
  void on_request(rdma::cm_id id, const rdma::cm_event& event);
  void connect(rdma::cm_id id, const rdma::cm_event& event, const std::shared_ptr<session>& owner);
  /// The session that `hello` asks for, new or known; the refusal where it may not have one.
  [[nodiscard]] std::shared_ptr<session> admit(const protocol::hello& hello, const std::string& peer,
                                               protocol::refusal& refused);
  [[nodiscard]] protocol::welcome greeting(const session& s) const;

  serving& with_;
  device_set& devices_;
  std::function<void()> on_session_end_;
  std::uint64_t incarnation_;
  std::vector<std::unique_ptr<rdma::listener>> listeners_;
  std::map<protocol::session_token, std::shared_ptr<session>> sessions_;
  std::uint64_t last_client_ = 0;
};

}  // namespace gpurdma::daemon
