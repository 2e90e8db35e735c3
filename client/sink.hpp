#pragma once

// Where the bytes that were read go. A sink blocks and is used on a worker thread alone, but made on any.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace gpurdma::client {

class sink {
 public:
  sink() = default;
  sink(const sink&) = delete;
  sink& operator=(const sink&) = delete;
  virtual ~sink() = default;

  /// Called in order, each with the bytes that follow the last. Throws std::system_error.
  virtual void write(std::span<const std::byte> bytes) = 0;
  /// All is written and right. Throws std::system_error.
  virtual void commit() = 0;
};

/// Nothing for no output, standard output for "-", a device or FIFO as it is, else a file. A file is written under a
/// temporary name in the same folder and gets its own only in commit(); without that nothing of it is left. Throws
/// std::system_error.
[[nodiscard]] std::unique_ptr<sink> make_sink(const std::optional<std::string>& output);

}  // namespace gpurdma::client
