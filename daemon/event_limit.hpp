#pragma once

// How often one peer may fill the log.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gpurdma::daemon {

/// "192.0.2.1" of "192.0.2.1:40112", "[2001:db8::7]" of "[2001:db8::7]:40112": a peer takes a new port each time.
[[nodiscard]] std::string_view host_of(std::string_view address) noexcept;

/// Lets `burst` events of a peer through at once and then one per `interval`. Each peer has an allowance of its own, so
/// none can silence another. Only the `most_peers` heard last are remembered: of one that was forgotten the count is
/// lost, and it may have a burst again.
class event_limit {
 public:
  using clock = std::chrono::steady_clock;
  static constexpr std::uint32_t burst = 20;
  static constexpr std::chrono::seconds interval{5};
  static constexpr std::size_t most_peers = 1024;

  /// How many of the peer's events were held back since the last one that passed; nothing where this one is, too.
  [[nodiscard]] std::optional<std::uint64_t> pass(std::string_view peer, clock::time_point now);
  [[nodiscard]] std::size_t peers() const noexcept { return by_name_.size(); }

 private:
  struct allowance {
    std::string peer;
    clock::time_point full_at;  ///< when the whole burst is there again
    std::uint64_t suppressed = 0;
  };
  allowance& allowance_of(std::string_view peer);

  std::list<allowance> by_age_;                                                   ///< heard last first
  std::unordered_map<std::string_view, std::list<allowance>::iterator> by_name_;  ///< names live in the list
};

}  // namespace gpurdma::daemon
