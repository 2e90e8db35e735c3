#pragma once

#include <openssl/rand.h>

#include <span>
#include <stdexcept>

namespace gpurdma::daemon {

/// An array of unpredictable bytes. Throws std::runtime_error where the system has none.
template <typename Array>
[[nodiscard]] Array random_bytes() {
  Array bytes{};
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): OpenSSL counts in unsigned char
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) != 1) {
    throw std::runtime_error{"OpenSSL has no random bytes"};
  }
  return bytes;
}

}  // namespace gpurdma::daemon
