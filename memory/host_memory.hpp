#pragma once

#include "memory/buffer_memory.hpp"

namespace gpurdma::memory {

/// Pages of host memory, zeroed, aligned to the page.
class host_memory final : public buffer_memory {
 public:
  /// `size` in bytes, not 0. Throws std::system_error (ENOMEM).
  explicit host_memory(std::size_t size);
  ~host_memory() override;

  [[nodiscard]] std::size_t size() const noexcept override { return size_; }
  [[nodiscard]] std::uint64_t address() const noexcept override;
  void write(std::size_t offset, std::span<const std::byte> from) override;
  void read(std::size_t offset, std::span<std::byte> to) const override;

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data_, size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  std::byte* data_;
  std::size_t size_;
};

}  // namespace gpurdma::memory
