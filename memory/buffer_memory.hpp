#pragma once

// Where the bytes of a buffer live.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "memory/dma_buf.hpp"

namespace gpurdma::memory {

/// One thread's way of putting content into a buffer, piece by piece, without a copy that can be spared: the caller
/// produces each piece where next() says, and while the next one is produced, the ones before are still on their way.
/// Used by one thread. Errors may come late, from any of these calls. Destroying it before finish() gives up.
class content_writer {
 public:
  content_writer() = default;
  content_writer(const content_writer&) = delete;
  content_writer& operator=(const content_writer&) = delete;
  virtual ~content_writer() = default;

  /// Where to put the bytes of [offset, offset + size), which must not go beyond the buffer. `offset` is a multiple of
  /// the transfer_plan's piece, `size` at most that. May block. Throws std::system_error.
  [[nodiscard]] virtual std::span<std::byte> next(std::size_t offset, std::size_t size) = 0;
  /// What next() returned is complete. `sums` takes the CRC32C of each of the piece's blocks (checksum_block_size), by
  /// finish() at the latest, unless the plan has them made at the end; it must live as long. Throws std::system_error.
  virtual void commit(std::span<std::uint32_t> sums) = 0;
  /// Returns when all that was committed is in the buffer, and its checksums are where they belong. Blocks. Throws
  /// std::system_error.
  virtual void finish() = 0;
};

/// In what portions a buffer's memory is best worked on. Sizes in bytes, multiples of checksum_block_size.
struct transfer_plan {
  std::size_t piece = 0;  ///< of a file, read by one call
  unsigned readers = 1;   ///< threads that read a file, each with a content_writer
  std::size_t step = 0;   ///< filled or checksummed between two looks at whether to stop
  /// The writers leave the checksums alone: checksum_blocks() over the whole is cheaper, once all is there.
  bool checksum_at_the_end = false;
};

/// One allocation, owned. Its address and size never change; whoever registers it with an adapter deregisters it
/// before this object goes. Every function may be called from any thread; what writes, not beside another on the same
/// bytes.
class buffer_memory {
 public:
  buffer_memory() = default;
  buffer_memory(const buffer_memory&) = delete;
  buffer_memory& operator=(const buffer_memory&) = delete;
  virtual ~buffer_memory() = default;

  /// Bytes that may be read and registered, from address() on.
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// As a registration names it; not to be dereferenced: it may be another device's.
  [[nodiscard]] virtual std::uint64_t address() const noexcept = 0;
  /// How to register memory that is not the host's: as this dma-buf, shared by all who ask while one of them still has
  /// it. Null where the memory is the host's and is registered by its address. Throws std::system_error;
  /// operation_not_supported where the device cannot export.
  [[nodiscard]] virtual std::shared_ptr<const dma_buf> export_dma_buf() { return nullptr; }

  /// Copies `from` to `offset`; offset + from.size() ≤ size(). Blocks. Throws std::system_error.
  virtual void write(std::size_t offset, std::span<const std::byte> from) = 0;
  /// Copies from `offset` on into `to`; offset + to.size() ≤ size(). Blocks. Throws std::system_error.
  virtual void read(std::size_t offset, std::span<std::byte> to) const = 0;

  [[nodiscard]] virtual transfer_plan plan() const noexcept = 0;
  /// Null if `stop` was requested while it waited for what a writer needs (staging memory). Throws std::system_error.
  [[nodiscard]] virtual std::unique_ptr<content_writer> make_writer(const std::stop_token& stop) = 0;
  /// Makes every byte of [offset, offset + size) `value`. Blocks. Throws std::system_error.
  virtual void fill(std::size_t offset, std::size_t size, std::byte value) = 0;
  /// Makes [offset, offset + size) the bytes of little-endian 64-bit words that count 0, 1, 2 … from the buffer's begin
  /// on; `offset` is a multiple of 8. Blocks. Throws std::system_error.
  virtual void fill_counting(std::size_t offset, std::size_t size) = 0;
  /// The CRC32C of blocks (checksum_block_size) `first`, first + 1 … into `sums`, one each. Blocks. Throws
  /// std::system_error.
  virtual void checksum_blocks(std::size_t first, std::span<std::uint32_t> sums) const = 0;
};

}  // namespace gpurdma::memory
