#pragma once

// Where the bytes of a buffer live.

#include <cstddef>
#include <cstdint>
#include <span>

namespace gpurdma::memory {

/// One allocation, owned. Its address and size never change; whoever registers it with an adapter deregisters it
/// before this object goes.
class buffer_memory {
 public:
  buffer_memory() = default;
  buffer_memory(const buffer_memory&) = delete;
  buffer_memory& operator=(const buffer_memory&) = delete;
  virtual ~buffer_memory() = default;

  /// Bytes that may be read and registered, from address() on.
  [[nodiscard]] virtual std::size_t size() const noexcept = 0;
  /// As a registration names it; not to be dereferenced: it may be another device's.
  [[nodiscard]] virtual std::uint64_t address() const noexcept = 0;

  /// Copies `from` to `offset`; offset + from.size() ≤ size(). Blocks. Throws std::system_error.
  virtual void write(std::size_t offset, std::span<const std::byte> from) = 0;
  /// Copies from `offset` on into `to`; offset + to.size() ≤ size(). Blocks. Throws std::system_error.
  virtual void read(std::size_t offset, std::span<std::byte> to) const = 0;
};

}  // namespace gpurdma::memory
