#pragma once

#include "memory/buffer_memory.hpp"
#include "memory/gpu.hpp"

namespace gpurdma::memory {

/// Memory of a GPU, one allocation, aligned to the host's page; its pages hold nothing else. Its content is whatever
/// was there before.
class cuda_memory final : public buffer_memory {
 public:
  /// `size` in bytes, not 0. Throws std::system_error; not_enough_memory with how much is free.
  cuda_memory(gpu_ptr on, std::size_t size);
  ~cuda_memory() override;

  [[nodiscard]] const gpu_ptr& device() const noexcept { return gpu_; }

  [[nodiscard]] std::size_t size() const noexcept override { return size_; }
  [[nodiscard]] std::uint64_t address() const noexcept override { return allocation_.address; }
  [[nodiscard]] std::shared_ptr<const dma_buf> export_dma_buf() override;
  void write(std::size_t offset, std::span<const std::byte> from) override;
  void read(std::size_t offset, std::span<std::byte> to) const override;
  [[nodiscard]] transfer_plan plan() const noexcept override;
  [[nodiscard]] std::unique_ptr<content_writer> make_writer(const std::stop_token& stop) override;
  void fill(std::size_t offset, std::size_t size, std::byte value) override;
  void fill_counting(std::size_t offset, std::size_t size) override;
  void checksum_blocks(std::size_t first, std::span<std::uint32_t> sums) const override;

 private:
  gpu_ptr gpu_;
  std::size_t size_;
  gpu::allocation allocation_;
  std::mutex export_mutex_;
  std::weak_ptr<const dma_buf> exported_;
};

}  // namespace gpurdma::memory
