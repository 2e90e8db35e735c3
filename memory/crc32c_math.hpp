#pragma once

// Arithmetic modulo CRC32C's polynomial, as joining checksums and computing them in parallel need it. Private to this
// folder.
//
// A reflected CRC keeps a polynomial of degree < 32 with its coefficients in reverse: bit 31 is that of x^0, bit 0 that
// of x^31. A message's first bit is bit 0 of its first byte and has the highest power; so a little-endian word of the
// message is, as it stands, the polynomial of its 32 bits.

#include <cstddef>
#include <cstdint>

// What runs on the GPU also runs on the CPU, where unit tests prove it.
#ifdef __CUDACC__
#define GPURDMA_HOST_DEVICE __host__ __device__
#else
#define GPURDMA_HOST_DEVICE
#endif

namespace gpurdma::memory::crc32c_math {

/// Castagnoli's polynomial without x^32, reflected.
inline constexpr std::uint32_t polynomial = 0x82F63B78;
inline constexpr std::uint32_t one = std::uint32_t{1} << 31U;

/// a · b.
GPURDMA_HOST_DEVICE constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    product ^= (0U - ((a >> static_cast<unsigned>(bit)) & 1U)) & b;
    b = (b >> 1U) ^ ((0U - (b & 1U)) & polynomial);
  }
  return product;
}

/// x^n.
constexpr std::uint32_t power_of_x(std::uint64_t n) noexcept {
  std::uint32_t result = one;
  for (std::uint32_t square = one >> 1U; n != 0; n >>= 1U) {
    if ((n & 1U) != 0) {
      result = multiply(result, square);
    }
    square = multiply(square, square);
  }
  return result;
}

/// The polynomial is (x + 1) times a primitive one of degree 31, so the powers of x repeat after this many.
inline constexpr std::uint64_t order_of_x = (std::uint64_t{1} << 31U) - 1;
static_assert(power_of_x(order_of_x) == one);  // 2^31 − 1 is prime, and x is not 1: no lesser number will do

/// x^(8 · bytes): what `bytes` more bytes of zero multiply a CRC without inversions by.
constexpr std::uint32_t appended_zeros(std::uint64_t bytes) noexcept {
  return power_of_x((bytes % order_of_x) * 8 % order_of_x);
}
/// The inverse of appended_zeros(bytes).
constexpr std::uint32_t removed_zeros(std::uint64_t bytes) noexcept {
  return power_of_x(order_of_x - (bytes % order_of_x) * 8 % order_of_x);
}

}  // namespace gpurdma::memory::crc32c_math
