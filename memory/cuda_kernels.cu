#include "memory/checksum.hpp"
#include "memory/crc32c_sliced.hpp"
#include "memory/cuda_kernels.hpp"

namespace gpurdma::memory::kernels {
namespace {

__device__ const crc32c_sliced::product_table products = crc32c_sliced::products_with_y();
__device__ const crc32c_sliced::distance_table distances = crc32c_sliced::distances();

constexpr unsigned rows_at_once = 8;  // so many reads of each thread are under way while it works on as many words

struct batch {
  std::uint32_t word[rows_at_once];
};

/// The thread's words of the next rows; `from` is that of the first.
__device__ batch read_batch(const std::uint32_t* from) {
  batch words;
#pragma unroll
  for (unsigned row = 0; row < rows_at_once; ++row) {
    words.word[row] = __ldcs(from + row * crc32c_sliced::threads);
  }
  return words;
}

__device__ void step_batch(crc32c_sliced::state& state, const batch& words) {
#pragma unroll
  for (unsigned row = 0; row < rows_at_once; ++row) {
    crc32c_sliced::step(state, words.word[row]);
  }
}

/// The state of this thread after its words of the whole block.
__device__ crc32c_sliced::state take_in(const crc32c_sliced::layout& in) {
  crc32c_sliced::state state{};
  const auto* const words = reinterpret_cast<const std::uint32_t*>(in.begin) + threadIdx.x;
  const auto take_masked = [&](std::uint64_t row) {
    const auto mask = crc32c_sliced::mask_of(in, row * crc32c_sliced::row_size + 4 * threadIdx.x);
    crc32c_sliced::step(state, mask == 0 ? 0 : mask & words[row * crc32c_sliced::threads]);
  };
  std::uint64_t row = 0;
  if (in.lead != 0) {
    take_masked(row++);
  }
  const auto whole_rows = (in.lead + in.size) / crc32c_sliced::row_size;
  if (row + rows_at_once <= whole_rows) {
    auto now = read_batch(words + row * crc32c_sliced::threads);
    for (row += rows_at_once; row + rows_at_once <= whole_rows; row += rows_at_once) {
      const auto next = read_batch(words + row * crc32c_sliced::threads);
      step_batch(state, now);
      now = next;
    }
    step_batch(state, now);
  }
  for (; row < whole_rows; ++row) {
    crc32c_sliced::step(state, words[row * crc32c_sliced::threads]);
  }
  if (row < in.rows) {
    take_masked(row);
  }
  return state;
}

/// One block of threads per checksum.
__global__ void __launch_bounds__(crc32c_sliced::threads, 4)
    checksum_kernel(std::uint64_t address, std::uint64_t size, std::uint32_t* sums) {
  __shared__ std::uint32_t shared_products[1024];
  __shared__ std::uint32_t warp_sums[crc32c_sliced::threads / 32];
  for (unsigned i = threadIdx.x; i < 1024; i += crc32c_sliced::threads) {
    shared_products[i] = products.entry[i];
  }
  const auto offset = std::uint64_t{blockIdx.x} * checksum_block_size;
  const auto left = size - offset;
  const auto state =
      take_in(crc32c_sliced::lay_out(address + offset, left < checksum_block_size ? left : checksum_block_size));
  __syncthreads();
  auto sum = crc32c_sliced::contribution(state, shared_products, distances.entry[threadIdx.x]);
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    sum ^= __shfl_xor_sync(0xFFFF'FFFF, sum, distance);
  }
  if (threadIdx.x % 32 == 0) {
    warp_sums[threadIdx.x / 32] = sum;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    for (unsigned warp = 1; warp < crc32c_sliced::threads / 32; ++warp) {
      sum ^= warp_sums[warp];
    }
    sums[blockIdx.x] = sum;
  }
}

__global__ void counting_kernel(std::uint64_t* to, std::uint64_t size, std::uint64_t first) {
  const auto stride = std::uint64_t{gridDim.x} * blockDim.x;
  const auto start = std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const auto whole = size / sizeof *to;
  for (auto i = start; i < whole; i += stride) {
    to[i] = first + i;
  }
  if (start < size % sizeof *to) {  // the last word is cut: a byte per thread
    reinterpret_cast<std::uint8_t*>(to + whole)[start] = static_cast<std::uint8_t>((first + whole) >> (8 * start));
  }
}

__global__ void nothing_kernel() {}

}  // namespace

cudaError_t checksum_blocks(std::uint64_t address, std::uint64_t size, std::uint32_t* sums, cudaStream_t stream) {
  if (size == 0) {
    return cudaSuccess;
  }
  const auto blocks = (size + checksum_block_size - 1) / checksum_block_size;
  checksum_kernel<<<static_cast<unsigned>(blocks), crc32c_sliced::threads, 0, stream>>>(address, size, sums);
  return cudaGetLastError();
}

cudaError_t fill_counting(std::uint64_t address, std::uint64_t size, std::uint64_t first, cudaStream_t stream) {
  constexpr unsigned threads = 256;
  constexpr std::uint64_t most = 4096;  // blocks; enough for any GPU, each then does more
  const auto wanted = size / sizeof(std::uint64_t) / threads + 1;
  counting_kernel<<<static_cast<unsigned>(wanted < most ? wanted : most), threads, 0, stream>>>(
      reinterpret_cast<std::uint64_t*>(address), size, first);
  return cudaGetLastError();
}

cudaError_t nothing(cudaStream_t stream) {
  nothing_kernel<<<1, 1, 0, stream>>>();
  return cudaGetLastError();
}

}  // namespace gpurdma::memory::kernels
