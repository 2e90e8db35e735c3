#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "daemon/registration_cache.hpp"

namespace gpurdma::daemon {

/// The right of a session to read a range of a buffer version until a time.
struct lease {
  using clock = std::chrono::steady_clock;

  std::uint64_t id = 0;
  registration_ptr registration;  ///< keeps the key and the memory
  std::uint64_t offset = 0;       ///< bytes
  std::uint64_t length = 0;       ///< bytes
  clock::time_point expires;
};

/// The milliseconds that are left until `end`, rounded up; 0 where it is past.
[[nodiscard]] inline std::uint32_t milliseconds_until(lease::clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - lease::clock::now()).count();
  return static_cast<std::uint32_t>(std::max<std::int64_t>(left, 0));
}

/// Whether [offset, offset + length) is a part of a buffer of `size` bytes that is not empty.
[[nodiscard]] constexpr bool is_range_of(std::uint64_t offset, std::uint64_t length, std::uint64_t size) noexcept {
  return length > 0 && offset < size && length <= size - offset;
}

}  // namespace gpurdma::daemon
