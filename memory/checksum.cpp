#include "memory/checksum.hpp"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <stdexcept>

#include "memory/crc32c_math.hpp"

namespace gpurdma::memory {
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
  // The inversions at both ends cancel out.
  return crc32c_math::multiply(a, crc32c_math::appended_zeros(size_of_b)) ^ b;
}

std::uint32_t crc32c_of_repeated(std::byte value, std::uint64_t size) noexcept {
  std::array<std::byte, 4096> part{};
  part.fill(value);
  std::uint32_t crc = 0;
  for (; size != 0; size -= std::min<std::uint64_t>(size, part.size())) {
    crc = crc32c(std::span{part}.first(static_cast<std::size_t>(std::min<std::uint64_t>(size, part.size()))), crc);
  }
  return crc;
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
