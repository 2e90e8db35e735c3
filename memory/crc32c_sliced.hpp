#pragma once

// CRC32C of a block by many threads that each take few operations per byte and no table lookups: how a GPU computes
// it. Plain functions over one thread's share; cuda_kernels.cu runs them, a unit test proves them on the CPU. Private
// to this folder.
//
// A block is rows of 256 words, and thread t takes word t of each row. Successive words of a thread are x^(32 · 256)
// apart, so with y = x^(2^13) a thread's words w_0 … w_(n-1) contribute (Σ w_r · y^(n-1-r)) · x^(32 · (256 - t)) to the
// CRC. Modulo 2, P(x)^(2^13) = P(x^(2^13)): y is a root of the CRC's own polynomial P. So the sum over r can be reduced
// modulo P(Y) with Y a mere symbol, for each of the 32 bit positions of the words by itself: `state.s[j]` holds, in its
// bit b, the coefficient of Y^j for bit position b. Taking in a word is a step of a shift register whose cells are
// words: s · Y + word modulo P(Y), one exclusive or per coefficient of P for 32 bits at once. At the end, Y becomes y.

#include <cstddef>
#include <cstdint>

#include "memory/crc32c_math.hpp"

namespace gpurdma::memory::crc32c_sliced {

inline constexpr unsigned threads = 256;
inline constexpr std::size_t row_size = std::size_t{threads} * 4;  ///< bytes
inline constexpr std::uint32_t y = crc32c_math::power_of_x(row_size * 8);

struct state {
  std::uint32_t s[32];  // NOLINT(cppcoreguidelines-avoid-c-arrays): for device code
};

/// The coefficient of Y^j in P(Y), without Y^32.
GPURDMA_HOST_DEVICE constexpr bool has_power(unsigned j) noexcept {
  return ((crc32c_math::polynomial >> (31U - j)) & 1U) != 0;
}

/// Takes in the next word. Meant to be unrolled several times, so that shifting costs nothing.
GPURDMA_HOST_DEVICE constexpr void step(state& of, std::uint32_t word) noexcept {
  const auto top = of.s[31];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (unsigned j = 31; j > 0; --j) {
    of.s[j] = has_power(j) ? of.s[j - 1] ^ top : of.s[j - 1];
  }
  of.s[0] = word ^ top;
}

/// Products with y, by byte of the other factor: entry 256 · i + v is y · (v << 8i).
struct product_table {
  std::uint32_t entry[1024];  // NOLINT(cppcoreguidelines-avoid-c-arrays)
};
constexpr product_table products_with_y() noexcept {
  product_table table{};
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned v = 0; v < 256; ++v) {
      table.entry[256 * i + v] = crc32c_math::multiply(v << (8 * i), y);
    }
  }
  return table;
}

GPURDMA_HOST_DEVICE inline std::uint32_t times_y(std::uint32_t a, const std::uint32_t* products) noexcept {
  return products[a & 0xFFU] ^ products[256 + ((a >> 8U) & 0xFFU)] ^ products[512 + ((a >> 16U) & 0xFFU)] ^
         products[768 + (a >> 24U)];
}

/// What thread `t` contributes to the CRC, given all of its words and x^(32 · (256 - t)).
GPURDMA_HOST_DEVICE inline std::uint32_t contribution(const state& of, const std::uint32_t* products,
                                                      std::uint32_t distance) noexcept {
  std::uint32_t sum = 0;
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (unsigned j = 32; j-- > 0;) {
    sum = times_y(sum, products) ^ of.s[j];
  }
  return crc32c_math::multiply(sum, distance);
}

/// x^(32 · (256 - t)) for each thread t.
struct distance_table {
  std::uint32_t entry[threads];  // NOLINT(cppcoreguidelines-avoid-c-arrays)
};
constexpr distance_table distances() noexcept {
  distance_table table{};
  auto power = crc32c_math::one;
  for (unsigned t = threads; t-- > 0;) {
    power = crc32c_math::multiply(power, crc32c_math::power_of_x(32));
    table.entry[t] = power;
  }
  return table;
}

/// Where the bytes of a block lie in rows that begin at an aligned address.
struct layout {
  std::uint64_t begin;  ///< the address of the first row: a multiple of `alignment`, at or before the block
  std::uint32_t lead;   ///< bytes before the block, which count as zeros; < alignment
  std::uint64_t size;   ///< bytes of the block
  std::uint64_t rows;   ///< the last may be longer than what is left of the block; the rest counts as zeros
};
inline constexpr std::uint64_t alignment = 128;  ///< what a warp reads at once

GPURDMA_HOST_DEVICE constexpr layout lay_out(std::uint64_t address, std::uint64_t size) noexcept {
  const auto lead = address % alignment;
  return {.begin = address - lead,
          .lead = static_cast<std::uint32_t>(lead),
          .size = size,
          .rows = (lead + size + row_size - 1) / row_size};
}

/// Which bits of the word at `offset` from the first row's begin belong to the block.
GPURDMA_HOST_DEVICE constexpr std::uint32_t mask_of(const layout& in, std::uint64_t offset) noexcept {
  const auto end = in.lead + in.size;
  if (offset + 4 <= in.lead || offset >= end) {
    return 0;
  }
  std::uint32_t mask = 0xFFFF'FFFF;
  if (offset < in.lead) {
    mask <<= 8 * (in.lead - offset);
  }
  if (offset + 4 > end) {
    mask &= 0xFFFF'FFFF >> (8 * (offset + 4 - end));
  }
  return mask;
}

/// From the sum of all threads' contributions to a block's CRC32C: takes out the zeros after the block, puts in the
/// inversions at both ends. Remembers its factors, as most blocks are alike.
class finisher {
 public:
  [[nodiscard]] std::uint32_t finish(std::uint32_t sum, std::uint64_t address, std::uint64_t size) noexcept {
    const auto rows = lay_out(address, size);
    const auto padding = rows.rows * row_size - rows.lead - size;
    if (padding != padding_) {
      padding_ = padding;
      without_padding_ = crc32c_math::removed_zeros(padding);
    }
    if (size != size_) {
      size_ = size;
      inversion_ = ~crc32c_math::multiply(0xFFFF'FFFF, crc32c_math::appended_zeros(size));
    }
    return (padding == 0 ? sum : crc32c_math::multiply(sum, without_padding_)) ^ inversion_;
  }

 private:
  std::uint64_t padding_ = 0;
  std::uint32_t without_padding_ = crc32c_math::one;
  std::uint64_t size_ = 0;
  std::uint32_t inversion_ = 0;  // of nothing: the CRC32C is 0
};

}  // namespace gpurdma::memory::crc32c_sliced
