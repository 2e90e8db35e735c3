#pragma once

// The client's side of the talk on one connection. Pure, like server_conversation, which it is tested against.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <system_error>
#include <variant>
#include <vector>

#include "protocol/message.hpp"

namespace gpurdma::protocol {

class client_conversation {
 public:
  using clock = std::chrono::steady_clock;

  struct settings {
    std::size_t credits = 1;                      ///< as the server granted
    std::chrono::milliseconds request_timeout{};  ///< from sending a request to its answer
  };

  /// Send these bytes.
  struct transmit {
    std::vector<std::byte> bytes;
  };
  /// The answer to a request: of the type that belongs to it, or an `error`.
  struct answered {
    std::uint32_t request_id;
    body answer;
  };
  struct noticed {
    notice what;
  };
  /// The conversation is over, close the connection.
  struct hang_up {
    std::error_code reason;
  };
  using action = std::variant<transmit, answered, noticed, hang_up>;
  using actions = std::vector<action>;

  explicit client_conversation(settings s);

  /// Sends `request`, or keeps it until a credit is free. Returns its id. After a hang_up it is dropped: of a request
  /// that had no answer by then, none will come.
  [[nodiscard]] std::uint32_t request(body request, clock::time_point now, actions& todo);
  [[nodiscard]] actions on_message(std::span<const std::byte> bytes, clock::time_point now);
  [[nodiscard]] actions on_time(clock::time_point now);
  [[nodiscard]] clock::time_point next_deadline() const noexcept;

 private:
  struct pending {
    body request;  ///< what the answer is checked against
    clock::time_point due;
  };
  struct waiting {
    std::uint32_t id;
    body request;
  };
  void send_waiting(clock::time_point now, actions& todo);
  [[nodiscard]] actions violated(errc why);

  settings settings_;
  std::uint32_t last_id_ = 0;
  std::map<std::uint32_t, pending> unanswered_;
  std::deque<waiting> waiting_;
  bool over_ = false;
};

}  // namespace gpurdma::protocol
