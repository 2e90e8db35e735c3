#pragma once

// A connection to a server: found, made, talked over, closed.

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "client/failure.hpp"
#include "protocol/client_conversation.hpp"
#include "protocol/handshake.hpp"
#include "rdma/cm_event_channel.hpp"
#include "rdma/connection.hpp"
#include "rdma/device.hpp"
#include "rdma/listener.hpp"

namespace gpurdma::client {

/// Told what happens to a link after it was made.
class link_handler {
 public:
  virtual void on_connected() = 0;
  virtual void on_read_done(std::uint32_t tag, std::error_code result) = 0;
  virtual void on_notice(const protocol::notice& what) = 0;
  /// The link could not be made or was lost; it closes itself.
  virtual void on_lost(failure why) = 0;
  /// Last: nothing of the link is in use any more.
  virtual void on_closed() = 0;

 protected:
  ~link_handler() = default;
};

/// For a person.
[[nodiscard]] std::string sentence_of(const protocol::error& e);

class link final : private rdma::cm_event_handler, private rdma::connection_handler {
 public:
  struct settings {
    std::uint32_t reads = 1;              ///< READs posted at once
    std::chrono::milliseconds timeout{};  ///< of each step of connecting and of each answer
  };

  /// Throws std::system_error: no RDMA device.
  link(boost::asio::io_context& io, rdma::workers& closers, settings s, link_handler& handler);
  link(const link&) = delete;
  link& operator=(const link&) = delete;
  ~link();

  /// Tries one address after the other until one answers.
  void connect(std::vector<rdma::endpoint> addresses);
  using answer = std::function<void(const protocol::body&)>;
  /// `then` gets the answer, which belongs to the request, or an `error`; nothing once the link is lost or closed.
  void request(protocol::body what, answer then);
  /// READs `length` bytes from `offset` of what `from` lends to `local`. `tag` comes back in on_read_done.
  [[nodiscard]] std::optional<failure> read(std::uint32_t tag, std::uint64_t local, std::uint32_t lkey,
                                            const protocol::lease& from, std::uint64_t offset, std::uint32_t length);
  /// Bytes: `wanted`, or less where the device's messages or the lease are shorter. Throws std::system_error.
  [[nodiscard]] std::uint32_t longest_read(std::uint32_t wanted, const protocol::lease& of) const;
  [[nodiscard]] const rdma::connection& connection() const noexcept { return *connection_; }
  [[nodiscard]] ibv_pd& domain() noexcept { return *domain_; }
  [[nodiscard]] std::string peer() const;

  void close();

 private:
  void on_cm_event(const rdma::cm_event& event) override;
  void on_established(std::span<const std::byte> private_data) override;
  void on_message(std::span<const std::byte> bytes) override;
  void on_read_done(std::uint32_t tag, std::error_code result) override;
  void on_failed(std::error_code why, std::span<const std::byte> private_data) override;
  void on_closed(std::uint32_t lost) override;

  void try_next();
  void make_connection();
  void give_up_address(const std::string& why, exit_status status = exit_status::cannot_connect);
  void lose(failure why);
  void act(protocol::client_conversation::actions todo);
  void arm(std::chrono::steady_clock::time_point due);
  void arm_step();
  void on_time();
  void finish();

  boost::asio::io_context& io_;
  rdma::workers& closers_;
  settings settings_;
  link_handler& handler_;
  rdma::cm_event_channel channel_;
  std::vector<rdma::endpoint> addresses_;
  std::size_t next_address_ = 0;
  std::string attempts_;  ///< what became of the addresses tried so far
  exit_status attempts_status_ = exit_status::cannot_connect;

  rdma::cm_id resolving_;
  std::unique_ptr<rdma::device> device_;
  rdma::protection_domain domain_;
  protocol::welcome welcome_;
  std::optional<protocol::client_conversation> conversation_;
  std::map<std::uint32_t, answer> answers_;
  std::unique_ptr<rdma::connection> connection_;
  boost::asio::steady_timer timer_;
  bool established_ = false;
  bool closing_ = false;                      ///< close() was called or the link is lost
  std::optional<std::string> retry_because_;  ///< the connection closes to make way for the next address
};

}  // namespace gpurdma::client
