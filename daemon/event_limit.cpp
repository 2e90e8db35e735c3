#include "daemon/event_limit.hpp"

#include <algorithm>
#include <utility>

namespace gpurdma::daemon {

std::string_view host_of(std::string_view address) noexcept { return address.substr(0, address.rfind(':')); }

event_limit::allowance& event_limit::allowance_of(std::string_view peer) {
  if (const auto found = by_name_.find(peer); found != by_name_.end()) {
    by_age_.splice(by_age_.begin(), by_age_, found->second);
    return by_age_.front();
  }
  if (by_age_.size() == most_peers) {
    by_name_.erase(by_age_.back().peer);
    by_age_.pop_back();
  }
  by_age_.push_front({.peer = std::string{peer}, .full_at = {}, .suppressed = 0});
  by_name_.emplace(by_age_.front().peer, by_age_.begin());
  return by_age_.front();
}

std::optional<std::uint64_t> event_limit::pass(std::string_view peer, clock::time_point now) {
  auto& of = allowance_of(peer);
  // A bucket of `burst` that fills by one per interval, kept as the time at which it is full.
  const auto after = std::max(of.full_at, now) + interval;
  if (after - now > burst * interval) {
    ++of.suppressed;
    return std::nullopt;
  }
  of.full_at = after;
  return std::exchange(of.suppressed, 0);
}

}  // namespace gpurdma::daemon
