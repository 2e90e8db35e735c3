#pragma once

// The named buffers and their versions.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/config.hpp"
#include "daemon/staged_copy.hpp"
#include "memory/buffer_memory.hpp"
#include "memory/checksum.hpp"
#include "memory/gpu.hpp"
#include "memory/loader.hpp"
#include "protocol/message.hpp"

namespace gpurdma::daemon {

/// Content that never changes: new content is a new version in new memory. Shared by whoever still needs the memory
/// (the pool, registrations), so that it goes after the last of them.
struct buffer_version {
  std::string name;
  std::uint64_t version = 0;
  memory::gpu_ptr gpu;  ///< that has the memory; null for host memory
  std::unique_ptr<memory::buffer_memory> memory;
  memory::content_checksums checksums;
  protocol::digest digest{};
  std::unique_ptr<staged_copy> staging;  ///< null where it is not allowed

  /// Whether some adapter serves a copy instead of the GPU's memory.
  [[nodiscard]] bool staged() const noexcept { return staging && staging->get() != nullptr; }
};
using buffer_version_ptr = std::shared_ptr<const buffer_version>;

/// Allocates, fills and checksums. Blocks for as long as the source takes. Throws std::system_error.
[[nodiscard]] buffer_version_ptr load_version(const buffer_config& from, std::uint64_t version,
                                              const std::stop_token& stop,
                                              const memory::load_progress& on_progress = {});

/// Compares the memory, and the staged copy if there is one, with the checksums taken when it was loaded. Blocks. The
/// first bad block, or nothing. Throws std::system_error.
[[nodiscard]] std::optional<std::size_t> find_bad_block(const buffer_version& of, const std::stop_token& stop);

class buffer_pool {
 public:
  /// Makes `version` the one that new leases get.
  void publish(buffer_version_ptr version);
  /// The version that is served under `name`, or null.
  [[nodiscard]] buffer_version_ptr find(std::string_view name) const;
  /// At most `most` of the buffers whose names sort after `after`, in order.
  [[nodiscard]] std::vector<buffer_version_ptr> list(std::string_view after, std::size_t most) const;
  [[nodiscard]] std::vector<buffer_version_ptr> all() const;
  /// Takes the buffers that `gpu` holds out of service: new leases are refused, saying `why`.
  void withdraw(const memory::gpu& gpu, const std::string& why);
  /// Why the buffer is out of service; empty where it is not, or unknown.
  [[nodiscard]] std::string why_withdrawn(std::string_view name) const;
  void clear() { buffers_.clear(); }

 private:
  std::map<std::string, std::string, std::less<>> withdrawn_;  ///< and why
  std::map<std::string, buffer_version_ptr, std::less<>> buffers_;
};

}  // namespace gpurdma::daemon
