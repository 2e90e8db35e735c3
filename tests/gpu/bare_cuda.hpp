#pragma once

// CUDA as plain as it gets: what the library is compared with, and how to break a context.

#include <cstdint>

namespace gpurdma::gpu_report::bare {

// All throw std::runtime_error, and work on the calling thread's current device.

/// Makes `device` the calling thread's current one.
void use(int device);

/// Pinned host memory of `size` bytes.
class pinned {
 public:
  explicit pinned(std::uint64_t size);
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
  ~pinned();
  [[nodiscard]] void* data() const noexcept { return data_; }

 private:
  void* data_ = nullptr;
};

/// Memory by cudaMalloc alone.
class device_memory {
 public:
  explicit device_memory(std::uint64_t size);
  device_memory(const device_memory&) = delete;
  device_memory& operator=(const device_memory&) = delete;
  ~device_memory();
  [[nodiscard]] std::uint64_t address() const noexcept { return address_; }

 private:
  std::uint64_t address_ = 0;
};

/// One cudaMemcpy from pinned host memory.
void copy_to_device(std::uint64_t to, const void* from, std::uint64_t size);

/// Reads `size` bytes at `address` by a kernel that does nothing else, and waits for it.
void read_all(std::uint64_t address, std::uint64_t size);

/// cudaMalloc and cudaMemset for each of `count` buffers of `size` bytes, then waits for the GPU. The buffers are in
/// `made`.
void make_pool(std::uint64_t* made, unsigned count, std::uint64_t size);
void free_pool(const std::uint64_t* made, unsigned count);

/// Launches a kernel that writes where no memory is.
void access_illegally();

/// Launches a kernel that keeps one multiprocessor busy for `milliseconds`, does not wait.
void spin(unsigned milliseconds);
/// Waits for the GPU.
void wait();

}  // namespace gpurdma::gpu_report::bare
