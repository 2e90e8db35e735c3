#pragma once

// Which READs make a read: pure arithmetic.

#include <cstdint>
#include <optional>

namespace gpurdma::client {

/// One READ. Offsets are in the buffer, in bytes.
struct chunk {
  std::uint64_t offset = 0;
  std::uint32_t length = 0;
  std::uint64_t block = 0;    ///< the checksum block that it lies in
  bool begins_block = false;  ///< it begins where the block does
  bool ends_block = false;    ///< it ends where the block does
};

/// Cuts [offset, offset + length) into chunks of at most `chunk_size` bytes, none of which crosses a boundary between
/// checksum blocks.
class read_plan {
 public:
  struct range {
    std::uint64_t offset = 0;       ///< bytes, in the buffer
    std::uint64_t length = 0;       ///< bytes, not 0
    std::uint64_t buffer_size = 0;  ///< bytes; offset + length is not beyond it
  };

  read_plan(range what, std::uint32_t chunk_size, std::uint32_t block_size);

  /// The next in order, or nothing after the last.
  [[nodiscard]] std::optional<chunk> next();
  [[nodiscard]] bool finished() const noexcept { return position_ == end_; }

  /// Whether every byte of the block is read, so that its checksum can be compared.
  [[nodiscard]] bool covers_block(std::uint64_t block) const noexcept;
  [[nodiscard]] std::uint64_t first_block() const noexcept { return what_.offset / block_size_; }
  [[nodiscard]] std::uint64_t last_block() const noexcept { return (end_ - 1) / block_size_; }

 private:
  [[nodiscard]] std::uint64_t end_of_block(std::uint64_t block) const noexcept;

  range what_;
  std::uint32_t chunk_size_;
  std::uint32_t block_size_;
  std::uint64_t end_;
  std::uint64_t position_;
};

}  // namespace gpurdma::client
