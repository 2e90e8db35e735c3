#include "memory/host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include "memory/checksum.hpp"

namespace gpurdma::memory {
namespace {

void checksum_each_block(std::span<const std::byte> bytes, std::span<std::uint32_t> sums) {
  for (auto& sum : sums) {
    const auto block = bytes.first(std::min(bytes.size(), checksum_block_size));
    sum = crc32c(block);
    bytes = bytes.subspan(block.size());
  }
}

/// The file is read right into the buffer; a piece is checksummed while the processor still has it in its cache.
class host_writer final : public content_writer {
 public:
  explicit host_writer(std::span<std::byte> buffer) : buffer_{buffer} {}
  [[nodiscard]] std::span<std::byte> next(std::size_t offset, std::size_t size) override {
    return piece_ = buffer_.subspan(offset, size);
  }
  void commit(std::span<std::uint32_t> sums) override { checksum_each_block(piece_, sums); }
  void finish() override {}

 private:
  std::span<std::byte> buffer_;
  std::span<std::byte> piece_;
};

}  // namespace

host_memory::host_memory(std::size_t size) : data_{nullptr}, size_{size} {
  void* const pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    throw std::system_error{errno, std::system_category(),
                            "cannot allocate " + std::to_string(size) + " bytes of host memory"};
  }
  data_ = static_cast<std::byte*>(pages);
}

host_memory::~host_memory() { munmap(data_, size_); }

std::uint64_t host_memory::address() const noexcept { return std::bit_cast<std::uintptr_t>(data_); }

void host_memory::write(std::size_t offset, std::span<const std::byte> from) {
  assert(offset <= size_ && from.size() <= size_ - offset);
  std::copy(from.begin(), from.end(), bytes().subspan(offset).begin());
}

void host_memory::read(std::size_t offset, std::span<std::byte> to) const {
  assert(offset <= size_ && to.size() <= size_ - offset);
  std::copy_n(bytes().subspan(offset).begin(), to.size(), to.begin());
}

transfer_plan host_memory::plan() const noexcept {
  // Most of the time goes into the first touch of each page, which the kernel does on each reader's processor.
  constexpr unsigned most = 4;
  return {.piece = checksum_block_size,
          .readers = std::clamp(std::thread::hardware_concurrency(), 1U, most),
          .step = checksum_block_size};
}

std::unique_ptr<content_writer> host_memory::make_writer(const std::stop_token& /*stop*/) {
  return std::make_unique<host_writer>(bytes());
}

void host_memory::fill(std::size_t offset, std::size_t size, std::byte value) {
  std::ranges::fill(bytes().subspan(offset, size), value);
}

void host_memory::fill_counting(std::size_t offset, std::size_t size) {
  const auto part = bytes().subspan(offset, size);
  for (std::size_t i = 0; i < size; i += sizeof(std::uint64_t)) {
    const std::uint64_t word = (offset + i) / sizeof word;
    static_assert(std::endian::native == std::endian::little);
    std::memcpy(&part[i], &word, std::min(sizeof word, size - i));  // the last word may be cut
  }
}

void host_memory::checksum_blocks(std::size_t first, std::span<std::uint32_t> sums) const {
  checksum_each_block(bytes().subspan(first * checksum_block_size), sums);
}

}  // namespace gpurdma::memory
