#pragma once

// Fills a buffer's memory from its source and learns its checksums on the way.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <variant>

#include "memory/buffer_memory.hpp"
#include "memory/checksum.hpp"

namespace gpurdma::memory {

/// Every byte has this value.
struct byte_fill {
  std::byte value{};
  bool operator==(const byte_fill&) const = default;
};

/// The bytes are little-endian 64-bit words that count 0, 1, 2 …: no two places of a buffer look alike.
struct counting_fill {
  bool operator==(const counting_fill&) const = default;
};

/// The bytes of a regular file, as many as the buffer has.
struct file_source {
  std::filesystem::path path;
  bool operator==(const file_source&) const = default;
};

using content_source = std::variant<byte_fill, counting_fill, file_source>;

/// Bytes of the regular file at `path`. Throws std::system_error: not there, not readable, not a regular file, empty.
[[nodiscard]] std::size_t file_size(const std::filesystem::path& path);

/// Told how much of a load is done, in bytes, ever more until all is. Comes from any of the loading threads, one at a
/// time, often; must not throw.
using load_progress = std::function<void(std::uint64_t bytes_done)>;

/// Fills the whole of `to` and learns its checksums on the way. A file is read by several threads, as `to` plans it,
/// and never held as a whole beside it. Blocks for as long as the source takes. Throws std::system_error: errors of the
/// file; a file shorter, longer or changed while being read; errors of the memory; operation_canceled once `stop` is
/// requested. `to` is then filled in part.
content_checksums load(buffer_memory& to, const content_source& from, const std::stop_token& stop,
                       const load_progress& on_progress = {});

/// The checksums of what `of` holds now. Blocks. Throws std::system_error, operation_canceled once `stop` is requested.
[[nodiscard]] content_checksums checksum(const buffer_memory& of, const std::stop_token& stop);

}  // namespace gpurdma::memory
