#include "client/landing.hpp"

#include "memory/cuda_memory.hpp"
#include "memory/host_memory.hpp"
#include "rdma/gpu_region.hpp"

namespace gpurdma::client {
namespace {

std::unique_ptr<memory::buffer_memory> allocate(std::size_t size, const memory::gpu_ptr& gpu) {
  if (gpu) {
    return std::make_unique<memory::cuda_memory>(gpu, size);
  }
  return std::make_unique<memory::host_memory>(size);
}

rdma::memory_region register_in(ibv_pd& domain, memory::buffer_memory& what, const memory::gpu_ptr& gpu) {
  constexpr auto access = rdma::region_access::local_write;
  if (!gpu) {
    return {domain, what.address(), what.size(), access};
  }
  std::shared_ptr<const memory::dma_buf> exported;  // not needed once it is registered
  const rdma::gpu_range range{
      .gpu = gpu->info().label(), .address = what.address(), .length = what.size(), .export_dma_buf = [&] {
        exported = what.export_dma_buf();
        return rdma::dma_buf_place{exported->fd(), exported->offset()};
      }};
  return rdma::register_gpu_memory(domain, range, access).region;
}

}  // namespace

landing::landing(ibv_pd& domain, std::size_t size, const memory::gpu_ptr& gpu)
    : memory_{allocate(size, gpu)}, region_{register_in(domain, *memory_, gpu)} {}

}  // namespace gpurdma::client
