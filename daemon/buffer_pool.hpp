#pragma once

// The named buffers and their versions.

#include <chrono>
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

/// A version that is not lent any more, and whose leases may be renewed for a while.
struct retired_version {
  using clock = std::chrono::steady_clock;

  buffer_version_ptr version;
  clock::time_point until;  ///< no lease of it lasts longer
  bool replaced = false;    ///< by another version, or the buffer is to be gone
};

class buffer_pool {
 public:
  /// Makes `version` the one that new leases get. One that was published before is retired or withdrawn first.
  void publish(buffer_version_ptr version);
  /// The version that is served under `name`, or null.
  [[nodiscard]] buffer_version_ptr find(std::string_view name) const;
  /// At most `most` of the buffers whose names sort after `after`, in order.
  [[nodiscard]] std::vector<buffer_version_ptr> list(std::string_view after, std::size_t most) const;
  [[nodiscard]] std::vector<buffer_version_ptr> all() const;

  /// The number of the next version of `name`, which never had a version with that number.
  [[nodiscard]] std::uint64_t next_version(const std::string& name) const;

  /// Keeps the memory of a version that is no longer lent, until forget(). Where it is still what find() gives, nothing
  /// is served under its name until the next publish(): see withdraw().
  void retire(retired_version what);
  /// Null where the version is not retired. Valid until it is forgotten.
  [[nodiscard]] const retired_version* retired(const buffer_version& which) const;
  [[nodiscard]] const std::vector<retired_version>& all_retired() const noexcept { return retired_; }
  /// What may be the last reference to a retired version, whose memory is slow to give back.
  [[nodiscard]] buffer_version_ptr forget(const buffer_version& which);

  /// Nothing is lent under `name` until the next publish(), and who asks for it is told `why`. Where `why` is empty,
  /// that there is no such buffer.
  void withdraw(const std::string& name, const std::string& why);
  /// The same of all buffers that `gpu` holds.
  void withdraw(const memory::gpu& gpu, const std::string& why);
  /// Why a buffer of this name is out of service; empty where one is served, or there is none.
  [[nodiscard]] std::string why_withdrawn(std::string_view name) const;

  void clear();

 private:
  std::map<std::string, std::string, std::less<>> withdrawn_;  ///< and why
  std::map<std::string, buffer_version_ptr, std::less<>> buffers_;
  std::map<std::string, std::uint64_t> last_versions_;
  std::vector<retired_version> retired_;
};

}  // namespace gpurdma::daemon
