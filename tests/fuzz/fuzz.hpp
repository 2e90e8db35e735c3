#pragma once

// Shared by the fuzz targets.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <vector>

namespace gpurdma::fuzz {

using bytes = std::vector<std::byte>;

/// Where `condition` does not hold, ends the program: libFuzzer then keeps the input.
inline void require(bool condition, const char* what) {
  if (!condition) {
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
  }
}

inline std::span<const std::byte> input(const std::uint8_t* data, std::size_t size) {
  return std::as_bytes(std::span{data, size});
}

}  // namespace gpurdma::fuzz
