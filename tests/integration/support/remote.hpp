#pragma once

// The server on the other host, as host_a.sh runs it.

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace gpurdma::test {

[[nodiscard]] std::string peer_address();
[[nodiscard]] std::string peer_address6();
/// A file in the folder that both hosts see.
[[nodiscard]] std::filesystem::path shared(const std::string& name);

class remote_server {
 public:
  [[nodiscard]] std::string log() const;
  /// Whether `text` stands in the log from `from` bytes on, now or within the patience.
  [[nodiscard]] bool wait_for(const std::string& text, std::size_t from = 0) const;
  /// The kernel's counts of host a: "pd 1 cq 1 qp 1 …", taken after the call.
  [[nodiscard]] std::string resources() const;
  [[nodiscard]] bool resources_return_to(const std::string& expected) const;
  void signal(const std::string& name) const;
  /// Nothing if it does not end.
  [[nodiscard]] std::optional<int> exit_status() const;
};

}  // namespace gpurdma::test
