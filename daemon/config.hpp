#pragma once

// The daemon's configuration: YAML to a validated struct. docs/operations.md and config/ show every key.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory/loader.hpp"
#include "rdma/listener.hpp"

namespace gpurdma::daemon {

enum class isolation {
  principal,  ///< a key per principal, registered once and shared by its clients
  lease,      ///< a key per lease, which dies with it
};

/// How a new version takes the place of the old one.
enum class replacement {
  keep,   ///< it is made first, and the old one kept where there is no room for both
  drain,  ///< the leases of the old one end first, and its memory is given back
};

enum class log_level { debug, info, warning, error };

struct buffer_config {
  std::string name;
  std::size_t size = 0;  ///< bytes
  memory::content_source source;
  std::optional<std::string> gpu = {};  ///< index, UUID or PCI address; nothing for host memory
  bool allow_staging = false;           ///< a copy in host memory may be served where an adapter cannot reach the GPU
  replacement replace = replacement::keep;
  bool operator==(const buffer_config&) const = default;
};

/// Where gpurdma-ctl reaches the server.
struct control_config {
  std::filesystem::path socket;  ///< empty: control.sock in $RUNTIME_DIRECTORY, and without one no socket
  std::string group;             ///< whose members may use it; empty: the server's own
  bool operator==(const control_config&) const = default;
};

struct config {
  std::vector<rdma::endpoint> listen;
  std::uint32_t max_clients = 1024;
  std::uint32_t leases_per_client = 64;
  std::chrono::milliseconds lease_duration{30'000};
  std::chrono::milliseconds lease_grace{60'000};  ///< for leases of a version that was replaced or removed
  std::chrono::milliseconds keepalive_interval{10'000};
  std::chrono::milliseconds keepalive_timeout{30'000};
  std::chrono::milliseconds drain_timeout{10'000};  ///< for clients with leases, once told to stop
  isolation keys = isolation::principal;
  control_config control;
  std::vector<buffer_config> buffers;
  log_level log = log_level::info;
};

/// Whether a buffer may name a GPU that this machine does not have.
enum class missing_gpu { refused, allowed };

/// Every problem of the file, one line each: "FILE:LINE:COLUMN: what is wrong; what to write instead".
class config_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Reads and checks the whole file; sources are opened, but nothing is loaded. Throws config_error.
[[nodiscard]] config load_config(const std::filesystem::path& file, missing_gpu gpus = missing_gpu::refused);
/// The same for a text; `name` stands for the file's in problems.
[[nodiscard]] config parse_config(const std::string& text, const std::string& name,
                                  missing_gpu gpus = missing_gpu::refused);

}  // namespace gpurdma::daemon
