#pragma once

// One connection of a session: carries its conversation over a queue pair.

#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <span>
#include <system_error>

#include "daemon/session.hpp"
#include "protocol/server_conversation.hpp"
#include "rdma/connection.hpp"

namespace gpurdma::daemon {

/// Requests that a client may have unanswered on one connection.
inline constexpr std::uint16_t credits = 8;

/// Notices that may wait for a SEND at once: of a reload, one for each lease of a client that holds the usual number.
inline constexpr std::uint16_t most_notices = 64;

/// What a connection posts: twice the credits in RECVs, for a client sees an answer before this side sees that its
/// SEND completed; SENDs for the answers. What waits for one is answers, a ping and notices.
[[nodiscard]] constexpr rdma::connection_settings server_connection_settings() noexcept {
  return {.receives = 2 * credits,
          .receive_size = protocol::max_request_size,
          .sends = credits,
          .send_size = protocol::max_reply_size,
          .queued_sends = 2 * credits + most_notices,
          .reads = 0};
}

class client_connection final : public std::enable_shared_from_this<client_connection>,
                                private rdma::connection_handler {
 public:
  /// Takes `id` over unless it throws std::system_error: the device is out of resources.
  client_connection(serving& with, std::shared_ptr<session> of, principal_domain_ptr domain, rdma::cm_id&& id);

  [[nodiscard]] std::error_code accept(std::uint8_t reads_in, const protocol::welcome& greeting);

  /// Whether there was room for it.
  bool tell(const protocol::notice& what);
  void allow_remote_read(bool allowed);
  /// Cuts the client off.
  void close(std::error_code why);
  /// The same, but lets what was sent arrive.
  void close_after_sends(std::error_code why = {}) {
    note_end(why);
    connection_.close_after_sends();
  }

  [[nodiscard]] std::uint32_t queue_pair() const noexcept { return connection_.number(); }
  [[nodiscard]] const rdma::device& device() const noexcept { return domain_->device; }

 private:
  void on_established(std::span<const std::byte> private_data) override;
  void on_message(std::span<const std::byte> bytes) override;
  void on_read_done(std::uint32_t tag, std::error_code result) override;
  void on_failed(std::error_code why, std::span<const std::byte> private_data) override;
  void on_closed(std::uint32_t lost) override;

  void act(protocol::server_conversation::actions todo);
  void do_action(protocol::server_conversation::transmit& action);
  void do_action(protocol::server_conversation::serve& action);
  void do_action(protocol::server_conversation::hang_up& action);
  void arm();
  void note_end(std::error_code why);

  std::shared_ptr<session> session_;
  principal_domain_ptr domain_;
  protocol::server_conversation conversation_;
  boost::asio::steady_timer timer_;  ///< for the conversation's next deadline
  bool armed_ = false;
  std::error_code end_reason_;  ///< the first; none where this side just closes
  rdma::connection connection_;
};

}  // namespace gpurdma::daemon
