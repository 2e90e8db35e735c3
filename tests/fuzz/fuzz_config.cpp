// Any text as the daemon's configuration, and as a part of one that is good but for it.

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <variant>

#include "daemon/config.hpp"
#include "protocol/message.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace gpurdma::memory {

// Linked instead of memory/loader.cpp, for the text of an input is the path of a file that nobody chose: none is
// opened. A path that begins with "no" has no file, the size of the others is that of the path.
std::size_t file_size(const std::filesystem::path& path) {
  if (path.native().empty() || path.native().starts_with("no")) {
    throw std::system_error{ENOENT, std::system_category(), "source " + path.string() + " cannot be opened"};
  }
  return path.native().size();
}

}  // namespace gpurdma::memory

namespace gpurdma::daemon {
namespace {

using namespace std::chrono_literals;
using fuzz::require;

template <typename T>
void require_within(T value, T least, T most, const char* what) {
  require(least <= value && value <= most, what);
}

void check_problems(const std::string& all) {
  require(!all.empty(), "a refusal says why");
  std::istringstream in{all};
  for (std::string line; std::getline(in, line);) {
    require(line.starts_with("t:") && line.size() > 3, "each line is a problem and its place");
    require(std::none_of(line.begin(), line.end(), [](char c) { return (c >= 0 && c < 0x20) || c == 0x7F; }),
            "a problem holds nothing that a terminal obeys");
  }
}

void check_buffers(const config& c) {
  require(!c.buffers.empty(), "there is a buffer");
  std::set<std::string> names;
  for (const auto& b : c.buffers) {
    require(protocol::is_valid_name(b.name), "a buffer has a valid name");
    require(names.insert(b.name).second, "a buffer has a name of its own");
    require(b.size > 0, "a buffer is not empty");
    if (const auto* const file = std::get_if<memory::file_source>(&b.source)) {
      require(memory::file_size(file->path) == b.size, "a buffer is as large as its source");
      require(file->path.native().find('\0') == std::string::npos, "a path ends where it says");
    }
  }
}

void check_listen(const config& c) {
  require(!c.listen.empty(), "there is an address to listen on");
  std::set<std::string> addresses;
  for (const auto& at : c.listen) {
    require(addresses.insert(at.to_string()).second, "an address stands once");
  }
}

void check(const std::string& text) {
  config c;
  try {
    c = parse_config(text, "t");
  } catch (const config_error& e) {
    check_problems(e.what());
    return;
  }
  check_listen(c);
  check_buffers(c);
  require_within<std::uint32_t>(c.max_clients, 1, 1'000'000, "limits.clients");
  require_within<std::uint32_t>(c.leases_per_client, 1, 65'536, "limits.leases_per_client");
  require_within<std::chrono::milliseconds>(c.lease_duration, 100ms, 24h, "lease.duration");
  require_within<std::chrono::milliseconds>(c.keepalive_interval, 100ms, 1h, "keepalive.interval");
  require_within<std::chrono::milliseconds>(c.keepalive_timeout, 200ms, 2h, "keepalive.timeout");
  require(c.keepalive_timeout > c.keepalive_interval, "keepalive.timeout is longer than the interval");
  require_within<std::chrono::milliseconds>(c.drain_timeout, 0ms, 1h, "shutdown.drain");
  require(c.keys == isolation::principal || c.keys == isolation::lease, "security.isolation");
  require_within(c.log, log_level::debug, log_level::error, "log.level");
}

}  // namespace
}  // namespace gpurdma::daemon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text{data, data + size};
  const std::string start = "listen: [\"0.0.0.0:7471\"]\nsecurity: { open: true }\nbuffers:\n  - ";
  gpurdma::daemon::check(text);
  gpurdma::daemon::check(start + "{ name: demo, memory: host, size: 4KiB, fill: R }\n" + text);
  gpurdma::daemon::check(start + text);
  return 0;
}
