#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

#include "tests/gpu/bare_cuda.hpp"

namespace gpurdma::gpu_report::bare {
namespace {

void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    throw std::runtime_error{std::string{what} + ": " + cudaGetErrorName(error)};
  }
}

/// Four 16-byte reads of each thread are under way; the sum keeps the compiler from leaving them out.
__global__ void __launch_bounds__(512) read_kernel(const uint4* from, std::uint64_t count, unsigned* never) {
  const auto stride = std::uint64_t{gridDim.x} * blockDim.x;
  unsigned sum = 0;
  auto i = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i + 3 * stride < count; i += 4 * stride) {
    const auto a = __ldcs(from + i);
    const auto b = __ldcs(from + i + stride);
    const auto c = __ldcs(from + i + 2 * stride);
    const auto d = __ldcs(from + i + 3 * stride);
    sum += a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
  }
  for (; i < count; i += stride) {
    const auto a = __ldcs(from + i);
    sum += a.x ^ a.y ^ a.z ^ a.w;
  }
  if (sum == 0x1234'5678 && never != nullptr) {
    *never = sum;
  }
}

__global__ void illegal_kernel(int* nowhere) { *nowhere = 1; }

__global__ void spin_kernel(std::uint64_t nanoseconds) {
  std::uint64_t begin = 0;
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < nanoseconds);
}

}  // namespace

void use(int device) { require(cudaSetDevice(device), "cudaSetDevice"); }

pinned::pinned(std::uint64_t size) { require(cudaHostAlloc(&data_, size, cudaHostAllocPortable), "cudaHostAlloc"); }
pinned::~pinned() { static_cast<void>(cudaFreeHost(data_)); }

device_memory::device_memory(std::uint64_t size) {
  require(cudaMalloc(reinterpret_cast<void**>(&address_), size), "cudaMalloc");
}
device_memory::~device_memory() { static_cast<void>(cudaFree(reinterpret_cast<void*>(address_))); }

void copy_to_device(std::uint64_t to, const void* from, std::uint64_t size) {
  require(cudaMemcpy(reinterpret_cast<void*>(to), from, size, cudaMemcpyHostToDevice), "cudaMemcpy");
}

void read_all(std::uint64_t address, std::uint64_t size) {
  int device = 0;
  int processors = 0;
  require(cudaGetDevice(&device), "cudaGetDevice");
  require(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "cudaDeviceGetAttribute");
  read_kernel<<<static_cast<unsigned>(processors) * 4, 512>>>(reinterpret_cast<const uint4*>(address),
                                                              size / sizeof(uint4), nullptr);
  require(cudaGetLastError(), "read_kernel");
  wait();
}

void make_pool(std::uint64_t* made, unsigned count, std::uint64_t size) {
  for (unsigned i = 0; i < count; ++i) {
    void* at = nullptr;
    require(cudaMalloc(&at, size), "cudaMalloc");
    require(cudaMemset(at, 0x52, size), "cudaMemset");
    made[i] = reinterpret_cast<std::uint64_t>(at);
  }
  wait();
}

void free_pool(const std::uint64_t* made, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    require(cudaFree(reinterpret_cast<void*>(made[i])), "cudaFree");
  }
}

void access_illegally() {
  illegal_kernel<<<1, 1>>>(reinterpret_cast<int*>(std::uint64_t{0x10}));
  require(cudaGetLastError(), "illegal_kernel");
}

void spin(unsigned milliseconds) {
  spin_kernel<<<1, 1>>>(std::uint64_t{milliseconds} * 1'000'000);
  require(cudaGetLastError(), "spin_kernel");
}

void wait() { require(cudaDeviceSynchronize(), "cudaDeviceSynchronize"); }

}  // namespace gpurdma::gpu_report::bare
