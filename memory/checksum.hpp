#pragma once

// CRC32C (Castagnoli; RFC 3720 appendix B.4) of blocks and of a whole, and the digest of a buffer's content.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace gpurdma::memory {

/// Bytes that one checksum of a buffer covers; the buffer's last block may be shorter.
inline constexpr std::size_t checksum_block_size = std::size_t{1} << 20U;

/// How many blocks `size` bytes have.
[[nodiscard]] constexpr std::size_t block_count(std::uint64_t size) noexcept {
  return static_cast<std::size_t>(size / checksum_block_size + (size % checksum_block_size != 0 ? 1 : 0));
}

/// The CRC32C of `bytes`, or of what `before` is the CRC32C of followed by `bytes`.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0) noexcept;

/// The CRC32C of A followed by B, given theirs and B's size in bytes.
[[nodiscard]] std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::uint64_t size_of_b) noexcept;

/// The CRC32C of `size` bytes that all are `value`.
[[nodiscard]] std::uint32_t crc32c_of_repeated(std::byte value, std::uint64_t size) noexcept;

/// What is known of a buffer's content: a checksum for each block.
struct content_checksums {
  std::uint64_t size = 0;             ///< bytes of the buffer
  std::vector<std::uint32_t> blocks;  ///< block_count(size) of them
  bool operator==(const content_checksums&) const = default;
};

/// SHA-256 over size, block size and block checksums. Equal content has an equal digest; it tells accidental
/// differences as well as CRC32C does and is no protection against a forger. Throws std::runtime_error.
[[nodiscard]] std::array<std::byte, 32> content_digest(const content_checksums& of);

}  // namespace gpurdma::memory
