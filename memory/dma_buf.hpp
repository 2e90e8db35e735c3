#pragma once

#include <unistd.h>

#include <cstdint>

namespace gpurdma::memory {

/// Memory of a device as a file descriptor, which a registration takes instead of an address. Owned: closed with this
/// object. A registration keeps the memory by itself: this is needed until the last one is made, not as long as they
/// live.
class dma_buf {
 public:
  /// Takes `fd`. The memory begins `offset` bytes into it and is `size` bytes long; offset is less than a page.
  dma_buf(int fd, std::uint64_t offset, std::uint64_t size) noexcept : fd_{fd}, offset_{offset}, size_{size} {}
  dma_buf(const dma_buf&) = delete;
  dma_buf& operator=(const dma_buf&) = delete;
  ~dma_buf() { ::close(fd_); }

  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// Of the memory's first byte in the descriptor; a part of the memory that begins n bytes later is at offset() + n.
  [[nodiscard]] std::uint64_t offset() const noexcept { return offset_; }
  /// Bytes of the memory. The descriptor has whole pages.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

 private:
  int fd_;
  std::uint64_t offset_;
  std::uint64_t size_;
};

}  // namespace gpurdma::memory
