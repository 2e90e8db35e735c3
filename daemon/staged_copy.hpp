#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "memory/buffer_memory.hpp"
#include "memory/checksum.hpp"
#include "memory/host_memory.hpp"
#include "memory/loader.hpp"

namespace gpurdma::daemon {

/// A copy in host memory of what a GPU holds, for adapters that cannot reach the GPU. Made when it is first asked for.
/// Any thread.
class staged_copy {
 public:
  /// The copy; the first call makes it and blocks. Throws std::system_error: no memory, the GPU's errors, or
  /// (io_error) a copy that is not what was loaded.
  [[nodiscard]] const memory::host_memory& of(const memory::buffer_memory& original,
                                              const memory::content_checksums& loaded);
  [[nodiscard]] bool exists() const noexcept { return exists_; }
  /// The copy, or null.
  [[nodiscard]] const memory::host_memory* get() const noexcept { return exists_ ? copy_.get() : nullptr; }

 private:
  std::mutex making_;
  std::unique_ptr<memory::host_memory> copy_;
  std::atomic<bool> exists_{false};
};

}  // namespace gpurdma::daemon
