#pragma once

// What a new configuration changes: pure comparison.

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/config.hpp"

namespace gpurdma::daemon {

/// Which file a source was, as far as stat(2) tells: who replaces or rewrites it changes one of these. All zero for
/// content that is no file, and for a file that is not there.
struct source_identity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t size = 0;     ///< bytes
  std::int64_t changed = 0;  ///< mtime, seconds
  std::int64_t changed_ns = 0;
  bool operator==(const source_identity&) const = default;
};

/// Blocks as stat(2) does.
[[nodiscard]] source_identity identify(const memory::content_source& source);

/// A buffer in service: how it was made, and from what.
struct served_buffer {
  buffer_config settings;
  source_identity source;
};
using served_buffers = std::map<std::string, served_buffer>;

struct reload_plan {
  std::vector<std::string> removed;
  std::vector<buffer_config> replaced;
  std::vector<buffer_config> added;
  std::vector<std::string> kept;
  std::vector<std::string> needs_restart;  ///< keys that changed and stay as they are until the server is restarted
};

/// `sources` are the identities of the buffers that `wanted` names, as of now; `republish` the names of buffers that
/// are to have a new version in any case.
[[nodiscard]] reload_plan plan_reload(const config& current, const served_buffers& served, const config& wanted,
                                      const std::map<std::string, source_identity>& sources,
                                      const std::set<std::string>& republish);

/// `wanted`, with what needs a restart as it is in `current`.
[[nodiscard]] config in_force_after_reload(const config& current, config wanted);

}  // namespace gpurdma::daemon
