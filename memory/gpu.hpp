#pragma once

// The GPUs of this machine. Also there in a program that was built without CUDA; it then has none, and says why.

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "memory/dma_buf.hpp"
#include "memory/owner_thread.hpp"

struct CUstream_st;

namespace gpurdma::memory {

struct gpu_info {
  int index = 0;            ///< as CUDA counts, which CUDA_VISIBLE_DEVICES changes
  std::string name;         ///< "NVIDIA H200"
  std::string uuid;         ///< "GPU-01234567-89ab-cdef-0123-456789abcdef"
  std::string pci_address;  ///< "0000:17:00.0"
  std::uint64_t bytes = 0;  ///< of memory
  std::optional<int> numa_node{};
  std::uint64_t bar1_bytes = 0;    ///< of memory that other devices can reach at once; 0 if unknown
  bool dma_buf_supported = false;  ///< its memory can be exported

  /// "GPU 0 (NVIDIA H200 at 0000:17:00.0)"
  [[nodiscard]] std::string label() const;
};

/// Errors of CUDA: their values are those of cudaError_t, their messages give name and meaning.
[[nodiscard]] const std::error_category& cuda_category() noexcept;
/// True for errors after which the GPU's context is of no use any more: the process must end to use that GPU again.
/// Also for a GPU that did not answer in time.
[[nodiscard]] bool is_gpu_lost(const std::error_code& error) noexcept;

/// Why this program can use no GPU on this machine at all, and what to do; nothing if it can.
[[nodiscard]] std::optional<std::string> cuda_unavailable();

/// For people, where there is a GPU: "CUDA 13.0, the driver's 13.0".
[[nodiscard]] std::string cuda_versions();

/// Empty where there is none, or none can be used. Costs the GPUs no memory. Throws std::system_error.
[[nodiscard]] std::vector<gpu_info> list_gpus();

/// The one of `gpus` that `selector` names: by index ("0"), UUID ("GPU-…", also its unambiguous beginning) or PCI
/// address ("0000:17:00.0", "17:00.0"). Throws std::system_error (no_such_device): there is none; what() lists those
/// that there are.
[[nodiscard]] const gpu_info& select_gpu(const std::vector<gpu_info>& gpus, std::string_view selector);

/// One GPU and its primary context, which is current on the owner thread. Every function may be called from any thread.
///
/// What changes the context as a whole (allocation, freeing, export) and the health check run on the owner thread: the
/// driver does one of these at a time anyway, and a GPU that has fallen off the bus then keeps that thread, not the
/// caller's, who waits for the check no longer than he wants to. Copies, fills and checksums run on their callers'
/// threads, for several buffers at once; loads share one stream, which the copy engine serves without a pause.
class gpu {
 public:
  /// find_gpu() makes it.
  explicit gpu(gpu_info info);
  gpu(const gpu&) = delete;
  gpu& operator=(const gpu&) = delete;
  /// After the last of its memory. Waits for the owner thread.
  ~gpu();

  [[nodiscard]] const gpu_info& info() const noexcept { return info_; }

  /// Has the GPU do something, and waits for it. Throws std::system_error with CUDA's error, its meaning and a remedy,
  /// or timed_out if there is no answer within `limit`; see is_gpu_lost().
  void check(std::chrono::milliseconds limit = std::chrono::seconds{10}) const;

  /// Bytes of memory that nobody uses. Throws std::system_error.
  [[nodiscard]] std::uint64_t free_bytes() const;

  /// The CRC32C of each block (checksum_block_size; the last may be shorter) of the `size` bytes at `address` of this
  /// GPU's memory, any address and size. `sums` has block_count(size) entries. Blocks. Throws std::system_error.
  void checksum(std::uint64_t address, std::uint64_t size, std::span<std::uint32_t> sums) const;

  /// Between the completion of a READ into this GPU's memory and the first look of the GPU at it (a kernel, a copy, a
  /// checksum): makes what the adapter wrote visible to the GPU. Does nothing where the GPU sees such writes in order
  /// by itself, or offers no flush to the host. Memory that others only read needs none of this. Source: CUDA's runtime
  /// API, cudaDeviceFlushGPUDirectRDMAWrites() and cudaDevAttrGPUDirectRDMAWritesOrdering. Blocks. Throws
  /// std::system_error.
  void flush_inbound_writes() const;

  /// The `size` bytes at `address`, any part of an allocation, as a dma-buf, which has whole pages: the caller sees to
  /// it that nobody is given the rest of the first and last page. Throws std::system_error; operation_not_supported
  /// where this machine cannot.
  [[nodiscard]] std::shared_ptr<const dma_buf> export_dma_buf(std::uint64_t address, std::uint64_t size) const;

 private:
  friend class cuda_memory;
  friend class cuda_writer;

  struct allocation {
    std::uint64_t base = 0;     ///< what is to be freed
    std::uint64_t address = 0;  ///< the first page's
  };
  /// Whole pages of its own, as many as `size` bytes need.
  [[nodiscard]] allocation allocate(std::uint64_t size) const;
  void free(const allocation& what) const noexcept;
  /// Makes the calling thread's calls of CUDA go to this GPU.
  void make_current() const;

  gpu_info info_;
  mutable owner_thread owner_;
  CUstream_st* check_stream_ = nullptr;
  CUstream_st* copy_stream_ = nullptr;  // of all loads
  CUstream_st* checksum_stream_ = nullptr;
  std::uint32_t* checksum_results_ = nullptr;  // pinned
  mutable std::mutex checksum_mutex_;          // of the two
};
using gpu_ptr = std::shared_ptr<gpu>;

/// The GPU that `selector` names, see select_gpu(); the same object for all who ask while one has it. Creates the
/// primary context (some 500 MB of the GPU's memory), which lives as long as the process. Throws std::system_error.
[[nodiscard]] gpu_ptr find_gpu(std::string_view selector);

}  // namespace gpurdma::memory
