#pragma once

// The language in which an input of fuzz_conversations is written: each step is one byte that names it, and the
// bytes that it takes after it.

#include <algorithm>

#include "tests/fuzz/fuzz.hpp"

namespace gpurdma::fuzz {

enum class step : std::uint8_t {
  ask,          ///< the client makes a request
  to_server,    ///< the wire delivers one message
  to_client,    ///< and the other way
  serve,        ///< the server has done its work on a request, in any order
  serve_other,  ///< the server's work mistakes the request's id
  notify,
  pass,  ///< of time
  garble,
  cut,
  repeat,
  lose,
  inject_message,
  inject_bytes,
  end_of_steps
};

/// Reads a script. Past its end all is 0.
class script {
 public:
  explicit script(std::span<const std::byte> input) : rest_{input} {}

  [[nodiscard]] bool at_end() const noexcept { return rest_.empty(); }
  std::uint8_t number() {
    if (rest_.empty()) {
      return 0;
    }
    const auto value = std::to_integer<std::uint8_t>(rest_.front());
    rest_ = rest_.subspan(1);
    return value;
  }
  std::size_t below(std::size_t end) { return number() % end; }
  bytes some(std::size_t size) {
    const auto taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return {taken.begin(), taken.end()};
  }
  step next() { return static_cast<step>(below(static_cast<std::size_t>(step::end_of_steps))); }

 private:
  std::span<const std::byte> rest_;
};

}  // namespace gpurdma::fuzz
