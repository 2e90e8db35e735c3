#pragma once

// Errors of CUDA's calls. Private to this folder.

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

namespace gpurdma::memory {

/// What to do about it, or nothing.
[[nodiscard]] std::string remedy_of(cudaError_t error);

/// Throws std::system_error (cuda_category()) whose what() says `what`, the error's name and meaning, and what to do.
[[noreturn]] void throw_cuda_error(cudaError_t error, const std::string& what);

inline void require(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // else the next launch's check finds it once more
    throw_cuda_error(error, what);
  }
}
inline void require(cudaError_t error, const std::string& what) { require(error, what.c_str()); }

/// The driver's call `name`, as of CUDA `version` (1000 · major + 10 · minor), so that the program starts without a
/// driver. Throws std::system_error where the driver is older.
[[nodiscard]] void* find_driver_call(const char* name, unsigned version);

/// Results of driver calls have the numbers of the runtime's errors (CUDA 10.1 and later).
inline cudaError_t to_runtime_error(CUresult result) noexcept { return static_cast<cudaError_t>(result); }

}  // namespace gpurdma::memory
