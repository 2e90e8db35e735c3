#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "memory/buffer_memory.hpp"
#include "memory/gpu.hpp"
#include "rdma/memory_region.hpp"

namespace gpurdma::client {

/// Memory that READs write to, registered for that and nothing else.
class landing {
 public:
  /// `size` bytes in `domain`; of the host where `gpu` is null. Blocks, long for much memory. Throws std::system_error,
  /// or rdma::no_gpu_path where the adapter cannot reach the GPU.
  landing(ibv_pd& domain, std::size_t size, const memory::gpu_ptr& gpu);

  [[nodiscard]] std::uint64_t address() const noexcept { return memory_->address(); }
  [[nodiscard]] std::uint32_t lkey() const noexcept { return region_.lkey(); }
  [[nodiscard]] memory::buffer_memory& memory() noexcept { return *memory_; }

 private:
  std::unique_ptr<memory::buffer_memory> memory_;
  rdma::memory_region region_;
};

}  // namespace gpurdma::client
