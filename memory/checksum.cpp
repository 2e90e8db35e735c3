#include "memory/checksum.hpp"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <stdexcept>

namespace gpurdma::memory {
namespace {

// Castagnoli's polynomial, bits reversed, as a reflected CRC uses it.
constexpr std::uint32_t polynomial = 0x82F63B78;

/// a · b modulo the polynomial, both reflected (bit 31 is x^0).
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) noexcept {
  std::uint32_t product = 0;
  for (std::uint32_t bit = std::uint32_t{1} << 31U; bit != 0; bit >>= 1U) {
    if ((a & bit) != 0) {
      product ^= b;
    }
    b = (b & 1U) != 0 ? (b >> 1U) ^ polynomial : b >> 1U;
  }
  return product;
}

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before) noexcept {
  // ISA-L takes an int and a pointer to non-const that it only reads from.
  constexpr std::size_t most = std::size_t{1} << 30U;
  std::uint32_t state = ~before;
  while (!bytes.empty()) {
    const auto part = bytes.first(std::min(bytes.size(), most));
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast,cppcoreguidelines-pro-type-reinterpret-cast)
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(part.data()));
    state = crc32_iscsi(data, static_cast<int>(part.size()), state);
    bytes = bytes.subspan(part.size());
  }
  return ~state;
}

std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::uint64_t size_of_b) noexcept {
  // Appending n zero bytes multiplies by x^(8n); square and multiply. The inversions at both ends cancel out.
  std::uint32_t power = std::uint32_t{1} << 23U;  // x^8
  for (auto n = size_of_b; n != 0; n >>= 1U) {
    if ((n & 1U) != 0) {
      a = multiply(a, power);
    }
    power = multiply(power, power);
  }
  return a ^ b;
}

std::array<std::byte, 32> content_digest(const content_checksums& of) {
  std::vector<unsigned char> input;
  const auto append = [&](std::uint64_t value, unsigned size) {
    for (unsigned i = 0; i < size; ++i) {
      input.push_back(static_cast<unsigned char>(value >> (8U * i)));
    }
  };
  append(of.size, 8);
  append(checksum_block_size, 4);
  for (const auto block : of.blocks) {
    append(block, 4);
  }
  std::array<unsigned char, 32> raw{};
  if (EVP_Digest(input.data(), input.size(), raw.data(), nullptr, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error{"OpenSSL cannot compute SHA-256"};
  }
  std::array<std::byte, 32> digest{};
  std::transform(raw.begin(), raw.end(), digest.begin(), [](unsigned char c) { return static_cast<std::byte>(c); });
  return digest;
}

}  // namespace gpurdma::memory
