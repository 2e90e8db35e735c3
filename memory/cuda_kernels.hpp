#pragma once

// The kernels, for host code: each launch returns at once, after putting its work on a stream of the current device.
// Private to this folder and tests/gpu.

#include <cuda_runtime_api.h>

#include <cstdint>

namespace gpurdma::memory::kernels {

/// For each block (checksum_block_size) of the `size` bytes at `address`, writes to `sums` what
/// crc32c_sliced::finisher makes the block's CRC32C of. `sums` may be host memory that the GPU can write to.
cudaError_t checksum_blocks(std::uint64_t address, std::uint64_t size, std::uint32_t* sums, cudaStream_t stream);

/// Makes the `size` bytes at `address`, a multiple of 8, those of little-endian 64-bit words that count from `first`.
cudaError_t fill_counting(std::uint64_t address, std::uint64_t size, std::uint64_t first, cudaStream_t stream);

/// Does nothing, which works only where the GPU does.
cudaError_t nothing(cudaStream_t stream);

}  // namespace gpurdma::memory::kernels
