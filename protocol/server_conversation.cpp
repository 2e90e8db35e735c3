#include "protocol/server_conversation.hpp"

#include <utility>

#include "protocol/codec.hpp"

namespace gpurdma::protocol {
namespace {

bool is_request(const body& content) {
  return std::holds_alternative<open>(content) || std::holds_alternative<get_checksums>(content) ||
         std::holds_alternative<renew>(content) || std::holds_alternative<release>(content) ||
         std::holds_alternative<list>(content);
}

server_conversation::transmit say(std::uint32_t request_id, body content) {
  return {encode(message{request_id, std::move(content)})};
}

}  // namespace

server_conversation::server_conversation(settings s, clock::time_point now) : settings_{s}, last_heard_{now} {}

server_conversation::actions server_conversation::violated(errc why) {
  // The error is a courtesy that tells the client's author what went wrong; the connection closes in any case.
  over_ = true;
  actions todo;
  todo.emplace_back(say(0, error{why, make_error_code(why).message()}));
  todo.emplace_back(hang_up{make_error_code(why)});
  return todo;
}

server_conversation::actions server_conversation::on_message(std::span<const std::byte> bytes, clock::time_point now) {
  if (over_) {
    return {};
  }
  last_heard_ = now;
  auto decoded = bytes.size() <= max_request_size ? decode(bytes) : make_error_code(errc::malformed_message);
  if (!decoded) {
    return violated(errc::malformed_message);
  }
  actions todo;
  if (std::holds_alternative<pong>(decoded->content)) {
    // An answer to no ping is harmless: it is heard from, which is all that a pong says.
    ping_sent_ = false;
  } else if (std::holds_alternative<ping>(decoded->content)) {
    todo.emplace_back(say(decoded->request_id, pong{}));
  } else if (!is_request(decoded->content) || decoded->request_id == 0) {
    return violated(errc::unexpected_message);
  } else if (unanswered_.size() >= settings_.credits) {
    return violated(errc::too_many_requests);
  } else if (!unanswered_.insert(decoded->request_id).second) {
    return violated(errc::unexpected_message);
  } else {
    todo.emplace_back(serve{decoded->request_id, std::move(decoded->content)});
  }
  return todo;
}

server_conversation::actions server_conversation::reply(std::uint32_t request_id, body answer) {
  if (over_ || unanswered_.erase(request_id) == 0) {
    return {};
  }
  actions todo;
  todo.emplace_back(say(request_id, std::move(answer)));
  return todo;
}

server_conversation::actions server_conversation::notify(notice n) {
  actions todo;
  if (!over_) {
    todo.emplace_back(say(0, std::move(n)));
  }
  return todo;
}

server_conversation::actions server_conversation::on_time(clock::time_point now) {
  actions todo;
  if (over_) {
    return todo;
  }
  if (now - last_heard_ >= settings_.silence_limit) {
    over_ = true;
    todo.emplace_back(hang_up{make_error_code(errc::peer_silent)});
  } else if (!ping_sent_ && now - last_heard_ >= settings_.ping_interval) {
    ping_sent_ = true;
    todo.emplace_back(say(0, ping{}));
  }
  return todo;
}

server_conversation::clock::time_point server_conversation::next_deadline() const noexcept {
  if (over_) {
    return clock::time_point::max();
  }
  return last_heard_ + (ping_sent_ ? settings_.silence_limit : settings_.ping_interval);
}

}  // namespace gpurdma::protocol
