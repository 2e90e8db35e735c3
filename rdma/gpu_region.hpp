#pragma once

// Registers memory of a GPU, in the one order that all of gpurdma keeps.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "rdma/memory_region.hpp"

namespace gpurdma::rdma {

/// A part of a GPU's allocation, as a registration names it.
struct gpu_range {
  std::string gpu;            ///< "GPU 0", for errors
  std::uint64_t address = 0;  ///< in the GPU's address space
  std::size_t length = 0;     ///< bytes
  /// The dma-buf whose byte `offset` lies at `address`; valid while the range is registered. Throws std::system_error,
  /// operation_not_supported where the GPU's driver cannot export.
  std::function<dma_buf_place()> export_dma_buf;
};

enum class gpu_path { dma_buf, peer_memory };
/// "dma-buf", "nvidia-peermem"
[[nodiscard]] const char* name_of(gpu_path path) noexcept;

struct gpu_region {
  memory_region region;
  gpu_path path = gpu_path::dma_buf;
  std::string why;  ///< why not the path before; empty for dma_buf
};

/// There is no way on this machine for the adapter to reach the GPU's memory; what() says why.
class no_gpu_path : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// As a dma-buf where driver and adapter can (kernel 5.12, rdma-core 34, NVIDIA's open modules), else by its address,
/// which the adapter's driver resolves with nvidia-peermem. Blocks. Throws no_gpu_path where neither way
/// is there; std::system_error where a way that is there fails: the next is not tried, for it would hide the cause.
[[nodiscard]] gpu_region register_gpu_memory(ibv_pd& domain, const gpu_range& what, region_access access);

/// Whether the device registers dma-bufs at all (ibv_reg_dmabuf_mr(3): without a valid descriptor one that does says
/// EBADF, one that does not EOPNOTSUPP).
[[nodiscard]] bool registers_dma_bufs(ibv_pd& domain) noexcept;

}  // namespace gpurdma::rdma
