#pragma once

// The server's side of the talk on one connection: who may speak, who must answer, and by when. Pure: messages, time
// and the results of the server's work come in, what to do comes out. It knows nothing of buffers and leases.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <system_error>
#include <variant>
#include <vector>

#include "protocol/message.hpp"

namespace gpurdma::protocol {

class server_conversation {
 public:
  using clock = std::chrono::steady_clock;

  struct settings {
    std::size_t credits = 1;                    ///< requests that the client may have unanswered
    std::chrono::milliseconds ping_interval{};  ///< silence after which the client is pinged
    std::chrono::milliseconds silence_limit{};  ///< silence after which it is given up; more than the interval
  };

  /// Send these bytes.
  struct transmit {
    std::vector<std::byte> bytes;
  };
  /// Do what the request asks and bring the answer to reply(), now or later, in any order.
  struct serve {
    std::uint32_t request_id;
    body request;
  };
  /// The conversation is over, close the connection. Nothing is expected or accepted any more.
  struct hang_up {
    std::error_code reason;
  };
  using action = std::variant<transmit, serve, hang_up>;
  using actions = std::vector<action>;

  server_conversation(settings s, clock::time_point now);

  [[nodiscard]] actions on_message(std::span<const std::byte> bytes, clock::time_point now);
  /// `request_id` is one that `serve` named and that has had no reply.
  [[nodiscard]] actions reply(std::uint32_t request_id, body answer);
  [[nodiscard]] actions notify(notice n);
  /// To be called at next_deadline() or after.
  [[nodiscard]] actions on_time(clock::time_point now);
  [[nodiscard]] clock::time_point next_deadline() const noexcept;

 private:
  [[nodiscard]] actions violated(errc why);

  settings settings_;
  std::set<std::uint32_t> unanswered_;
  clock::time_point last_heard_;
  bool ping_sent_ = false;
  bool over_ = false;
};

}  // namespace gpurdma::protocol
