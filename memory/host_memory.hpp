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

  [[nodiscard]] transfer_plan plan() const noexcept override;
  [[nodiscard]] std::unique_ptr<content_writer> make_writer(const std::stop_token& stop) override;
  void fill(std::size_t offset, std::size_t size, std::byte value) override;
  void fill_counting(std::size_t offset, std::size_t size) override;
  void checksum_blocks(std::size_t first, std::span<std::uint32_t> sums) const override;

  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data_, size_}; }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  std::byte* data_;
  std::size_t size_;
};

}  // namespace gpurdma::memory
