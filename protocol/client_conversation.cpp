#include "protocol/client_conversation.hpp"

#include <algorithm>
#include <utility>

#include "protocol/codec.hpp"

namespace gpurdma::protocol {
namespace {

/// Whether `answer` is what a server may say to `request`, judged by the fields of the request alone. What a lease
/// claims (sizes, addresses) is the reader's to bound.
bool answers(const body& request, const body& answer) {
  if (std::holds_alternative<error>(answer)) {
    return true;
  }
  if (std::holds_alternative<open>(request)) {
    return std::holds_alternative<lease>(answer);
  }
  if (const auto* const asked = std::get_if<get_checksums>(&request)) {
    const auto* const got = std::get_if<checksums>(&answer);
    return got != nullptr && got->first_block == asked->first_block && got->values.size() == asked->count;
  }
  if (const auto* const asked = std::get_if<renew>(&request)) {
    const auto* const got = std::get_if<renewed>(&answer);
    return got != nullptr && got->lease_id == asked->lease_id;
  }
  if (const auto* const asked = std::get_if<release>(&request)) {
    const auto* const got = std::get_if<released>(&answer);
    return got != nullptr && got->lease_id == asked->lease_id;
  }
  if (const auto* const asked = std::get_if<list>(&request)) {
    const auto* const got = std::get_if<listing>(&answer);
    // Strictly ascending from `after` on, so that paging ends whatever the server does.
    auto last = asked->after;
    return got != nullptr && std::all_of(got->entries.begin(), got->entries.end(),
                                         [&](const listing::entry& e) { return std::exchange(last, e.name) < e.name; });
  }
  return false;
}

}  // namespace

client_conversation::client_conversation(settings s) : settings_{s} {}

std::uint32_t client_conversation::request(body request, clock::time_point now, actions& todo) {
  last_id_ = last_id_ == ~std::uint32_t{0} ? 1 : last_id_ + 1;
  if (!over_) {
    waiting_.push_back({last_id_, std::move(request)});
    send_waiting(now, todo);
  }
  return last_id_;
}

void client_conversation::send_waiting(clock::time_point now, actions& todo) {
  while (!waiting_.empty() && unanswered_.size() < settings_.credits) {
    auto next = std::move(waiting_.front());
    waiting_.pop_front();
    todo.emplace_back(transmit{encode(message{next.id, next.request})});
    unanswered_.emplace(next.id, pending{std::move(next.request), now + settings_.request_timeout});
  }
}

client_conversation::actions client_conversation::violated(errc why) {
  over_ = true;
  actions todo;
  todo.emplace_back(hang_up{make_error_code(why)});
  return todo;
}

client_conversation::actions client_conversation::on_message(std::span<const std::byte> bytes, clock::time_point now) {
  if (over_) {
    return {};
  }
  auto decoded = decode(bytes);
  if (!decoded) {
    return violated(errc::malformed_message);
  }
  actions todo;
  auto& content = decoded->content;
  if (std::holds_alternative<ping>(content)) {
    todo.emplace_back(transmit{encode(message{decoded->request_id, pong{}})});
  } else if (auto* const n = std::get_if<notice>(&content)) {
    todo.emplace_back(noticed{std::move(*n)});
  } else if (const auto* const e = std::get_if<error>(&content); e != nullptr && decoded->request_id == 0) {
    // The server's last word before it hangs up on us for a violation of ours.
    return violated(e->code);
  } else {
    const auto found = unanswered_.find(decoded->request_id);
    if (found == unanswered_.end() || !answers(found->second.request, content)) {
      return violated(errc::unexpected_message);
    }
    unanswered_.erase(found);
    todo.emplace_back(answered{decoded->request_id, std::move(content)});
    send_waiting(now, todo);
  }
  return todo;
}

client_conversation::actions client_conversation::on_time(clock::time_point now) {
  return !over_ && now >= next_deadline() ? violated(errc::reply_overdue) : actions{};
}

client_conversation::clock::time_point client_conversation::next_deadline() const noexcept {
  auto first = clock::time_point::max();
  for (const auto& [id, p] : unanswered_) {
    first = std::min(first, p.due);
  }
  return over_ ? clock::time_point::max() : first;
}

}  // namespace gpurdma::protocol
