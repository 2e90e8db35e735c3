#pragma once

// Pinned host memory, through which content goes to GPUs: a bound for the whole process, shared by all loads.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <vector>

namespace gpurdma::memory {

/// How many threads read one file on a machine of `threads`: three quarters, for the driver and other loads need some
/// too, and not more than 12, beyond which pieces of 4 MiB load no faster (measured: an H200 and 16 threads).
[[nodiscard]] unsigned readers_for(unsigned threads) noexcept;
/// The same for this machine.
[[nodiscard]] unsigned default_readers() noexcept;

struct staging_options {
  std::size_t limit = std::size_t{256} << 20U;  ///< bytes of pinned memory; one buffer there is always
  std::size_t piece = std::size_t{4} << 20U;    ///< bytes of a buffer, a multiple of checksum_block_size
  unsigned readers = default_readers();         ///< threads that read one file
  unsigned depth = 3;                           ///< buffers that one reader has at most
};

/// Buffers of one size. Those not in use are kept for the next load, as pinning takes longer than a copy, until trim().
/// Every function may be called from any thread.
class staging_pool {
 public:
  /// Bytes of pinned memory, accessible to all GPUs. `allocate` throws std::system_error, `release` does not throw.
  struct source {
    std::function<std::byte*(std::size_t)> allocate;
    std::function<void(std::byte*)> release;
  };

  explicit staging_pool(source from, const staging_options& options = {});
  staging_pool(const staging_pool&) = delete;
  staging_pool& operator=(const staging_pool&) = delete;
  /// All buffers must have been given back.
  ~staging_pool();

  /// For loads that begin from now on; while no buffer is in use.
  void configure(const staging_options& options);
  [[nodiscard]] staging_options options() const;

  /// A buffer of options().piece bytes. Waits until one is free; null if `stop` is requested
  /// before. Who holds a buffer must not wait for another, or all might wait for each other. Throws std::system_error.
  [[nodiscard]] std::byte* acquire(const std::stop_token& stop);
  /// The same, null instead of waiting.
  [[nodiscard]] std::byte* try_acquire();
  void give_back(std::byte* buffer) noexcept;

  /// Unpins what is not in use: for when all is loaded.
  void trim();

  [[nodiscard]] std::size_t pinned_bytes() const;
  /// The most that was pinned at once since the last call of configure().
  [[nodiscard]] std::size_t peak_bytes() const;

 private:
  [[nodiscard]] bool may_take() const noexcept;
  std::byte* take(std::unique_lock<std::mutex> lock);

  const source from_;
  mutable std::mutex mutex_;
  std::condition_variable_any freed_;
  staging_options options_;
  std::vector<std::byte*> free_;
  std::size_t buffers_ = 0;  // free or in use
  std::size_t most_buffers_ = 0;
};

/// The process's pool, of CUDA's pinned memory.
[[nodiscard]] staging_pool& staging();

}  // namespace gpurdma::memory
