#pragma once

#include <cstddef>
#include <cstdint>

#include "rdma/handles.hpp"

namespace gpurdma::rdma {

/// What a peer may do with a region. Remote writing is not to be had.
enum class region_access { local_write, remote_read };

/// A place in a dma-buf.
struct dma_buf_place {
  int fd = -1;
  std::uint64_t offset = 0;  ///< bytes
};

/// Registered memory. The memory outlives it; so does the protection domain.
class memory_region {
 public:
  /// Blocks, long for large memory. Throws std::system_error: ENOMEM also where RLIMIT_MEMLOCK is too small.
  memory_region(ibv_pd& domain, std::uint64_t address, std::size_t length, region_access access);
  /// Memory of another device: `length` bytes at `place` and nothing around them. The keys' addresses begin at
  /// `address`, whose offset in its page is that of `place.offset`. Throws std::system_error.
  memory_region(ibv_pd& domain, dma_buf_place place, std::uint64_t address, std::size_t length, region_access access);

  [[nodiscard]] std::uint32_t lkey() const noexcept { return region_->lkey; }
  [[nodiscard]] std::uint32_t rkey() const noexcept { return region_->rkey; }

 private:
  memory_region_handle region_;
};

}  // namespace gpurdma::rdma
