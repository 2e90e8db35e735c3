#pragma once

// Identity and leases of one client, over one or more connections.

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "daemon/buffer_pool.hpp"
#include "daemon/config.hpp"
#include "daemon/lease.hpp"
#include "daemon/registration_cache.hpp"
#include "protocol/handshake.hpp"
#include "protocol/message.hpp"

namespace gpurdma::daemon {

/// What sessions share of the server.
struct serving {
  boost::asio::io_context& io;
  rdma::workers& closers;
  const config& settings;
  const buffer_pool& pool;
  registration_cache& registrations;
  std::function<void()> changed;  ///< called when clients or leases come and go
  bool shutting_down = false;
  std::uint64_t last_lease = 0;
  std::size_t leases = 0;  ///< of all sessions
};

/// What an operator sees of a client.
struct client_view {
  struct held {
    std::uint64_t id = 0;
    std::string buffer;
    std::uint64_t version = 0;
    std::uint64_t bytes = 0;
    std::chrono::milliseconds left{};
  };
  std::uint64_t number = 0;
  std::string peer;
  std::size_t connections = 0;
  std::vector<std::uint32_t> queue_pairs;
  std::vector<held> leases;
  std::uint64_t leases_granted = 0;
  std::uint64_t bytes_read = 0;  ///< as the client counts them
  std::chrono::milliseconds connected{};
};

class client_connection;

class session : public std::enable_shared_from_this<session> {
 public:
  using answer = std::function<void(protocol::body)>;
  using ended = std::function<void(session&)>;

  /// `number` names the client in logs. `on_end` is called when the last connection is closed and may destroy it.
  session(serving& with, std::uint64_t number, protocol::session_token token, principal_id principal, std::string peer,
          ended on_end);
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session();

  /// Does what a request asks; `then` is told the answer, now or later, unless the session has ended meanwhile.
  void serve(const principal_domain_ptr& domain, const protocol::body& request, answer then);

  void add(const std::shared_ptr<client_connection>& c);
  /// `why` the connection ended; that of the last is the session's, for the log.
  void remove(client_connection& c, std::error_code why);

  /// Asks the client to go: at once where it holds no lease, else when the last is released or drop() comes.
  void shut_down();
  /// Ends its leases on what `gpu` holds; which those were.
  [[nodiscard]] std::vector<std::uint64_t> revoke(const memory::gpu& gpu);
  /// Tells the client of leases that were revoked, whose keys are dead by now.
  void tell_revoked(const std::vector<std::uint64_t>& leases, const std::string& why);
  /// Cuts the client off.
  void drop(std::error_code why);
  /// The same at an operator's wish: the client is told first.
  void expel();
  /// Tells the client of each lease of the version, none of which lasts longer than `what.until` from now on.
  void on_retired(const retired_version& what);

  /// Closes the connections over `device`, which is gone.
  void on_device_lost(const rdma::device& device);

  [[nodiscard]] client_view view() const;

  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }
  [[nodiscard]] const std::string& peer() const noexcept { return peer_; }
  [[nodiscard]] const protocol::session_token& token() const noexcept { return token_; }
  [[nodiscard]] principal_id principal() const noexcept { return principal_; }
  [[nodiscard]] std::size_t connections() const noexcept { return connections_.size(); }
  /// Whether the client may READ: it holds a lease.
  [[nodiscard]] bool may_read() const noexcept { return !leases_.empty(); }
  /// Whether an operator dropped it, or the server is shutting down: it gets nothing new.
  [[nodiscard]] bool leaving() const noexcept { return leaving_; }

 private:
  void open(const principal_domain_ptr& domain, const protocol::open& request, answer then);
  void on_registered(const protocol::open& request, registration_ptr made, const std::exception_ptr& error,
                     const answer& then);
  void grant(const protocol::open& request, registration_ptr r, const answer& then);
  void get_checksums(const protocol::get_checksums& request, const answer& then) const;
  void renew(const protocol::renew& request, const answer& then);
  void release(const protocol::release& request, answer then);
  void list(const protocol::list& request, const answer& then) const;
  void refuse(protocol::errc code, std::string sentence, const answer& then) const;
  void refuse_leaving(const answer& then) const;
  void refuse_unserved(const std::string& name, const answer& then) const;
  /// Whether a version that was served when it was asked for still may be: its GPU may have failed meanwhile.
  [[nodiscard]] bool may_be_lent(const buffer_version& which) const;

  void end_lease(std::map<std::uint64_t, lease>::iterator which, std::string_view why, std::function<void()> then);
  void end_expired();
  void arm_expiry();
  /// The time at which a lease that is granted or renewed now ends, at the latest.
  [[nodiscard]] lease::clock::time_point end_of_lease(const buffer_version& of) const;
  void update_access();
  /// Closes the connections of a client that was asked to leave and holds nothing more.
  void leave_if_done();
  void tell(const protocol::notice& what);

  serving& with_;
  std::uint64_t number_;
  protocol::session_token token_;
  principal_id principal_;
  std::string peer_;
  ended on_end_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();

  std::vector<std::shared_ptr<client_connection>> connections_;
  std::map<std::uint64_t, lease> leases_;
  std::size_t opening_ = 0;    ///< leases asked for and not yet granted
  std::size_t releasing_ = 0;  ///< leases given back whose key is not yet dead
  boost::asio::steady_timer expiry_;
  bool leaving_ = false;
  std::uint64_t leases_granted_ = 0;
  std::uint64_t bytes_read_ = 0;  ///< as the client counts them
};

}  // namespace gpurdma::daemon
