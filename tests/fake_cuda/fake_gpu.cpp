// A GPU without a GPU: the edge of CUDA's driver, replaced. Its memory is the heap's, but has addresses where the
// process has no pages, so that the kernel refuses to register it exactly as it refuses a GPU's memory without
// nvidia-peermem; and it exports no dma-buf. Linked before gpurdma_cuda, whose definitions are then not taken.
//
// FAKE_GPU_LOST names a file: while it exists the GPU's context is lost.

#include "tests/fake_cuda/fake_gpu.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "memory/checksum.hpp"
#include "memory/cuda_memory.hpp"
#include "memory/host_memory.hpp"
#include "memory/staging.hpp"

namespace gpurdma::memory {
namespace {

constexpr int lost_context = 700;  // cudaErrorIllegalAddress

class category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "cuda"; }
  [[nodiscard]] std::string message(int value) const override { return "CUDA error " + std::to_string(value); }
};

const gpu_info& the_gpu() {
  static const gpu_info only{.index = 0,
                             .name = "Fake",
                             .uuid = "GPU-00000000-0000-0000-0000-000000000000",
                             .pci_address = "0000:00:00.0",
                             .bytes = std::uint64_t{1} << 30U};
  return only;
}

/// Addresses at which nothing is mapped, nor will be: far from where the kernel and the sanitizers put things. (Pages
/// without permissions would not do: ib_umem_get() pins them all the same.)
std::uint64_t unmapped_address(std::size_t size) {
  constexpr std::uint64_t page = 4096;
  static std::atomic<std::uint64_t> next{0x2000'0000'0000};
  return next.fetch_add((size + page - 1) / page * page);
}

/// What the allocation's `base` points to: its bytes, as pages of a descriptor that stands for the dma-buf.
struct storage {
  explicit storage(std::size_t size) : fd{memfd_create("fake GPU", MFD_CLOEXEC)} {
    void* pages = MAP_FAILED;
    if (ftruncate(fd, static_cast<off_t>(size)) == 0) {
      pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (pages == MAP_FAILED) {
      throw std::system_error{errno, std::system_category(), "the fake GPU has no memory"};
    }
    bytes = {static_cast<std::byte*>(pages), size};
  }
  storage(const storage&) = delete;
  storage& operator=(const storage&) = delete;
  ~storage() {
    munmap(bytes.data(), bytes.size());
    ::close(fd);
  }

  int fd;
  std::span<std::byte> bytes;
};

storage& storage_at(std::uint64_t base) { return *std::bit_cast<storage*>(base); }

}  // namespace

const std::error_category& cuda_category() noexcept {
  static const category instance;
  return instance;
}
bool is_gpu_lost(const std::error_code& error) noexcept {
  return error.category() == cuda_category() && error.value() == lost_context;
}
std::optional<std::string> cuda_unavailable() { return std::nullopt; }
std::string cuda_versions() { return "CUDA of tests"; }
std::vector<gpu_info> list_gpus() { return {the_gpu()}; }
gpu_ptr find_gpu(std::string_view selector) {
  static const auto only = std::make_shared<gpu>(the_gpu());
  static_cast<void>(select_gpu({the_gpu()}, selector));
  return only;
}

gpu::gpu(gpu_info info) : info_{std::move(info)} {}
gpu::~gpu() = default;
void gpu::check(std::chrono::milliseconds /*limit*/) const {
  const char* const flag = std::getenv("FAKE_GPU_LOST");
  if (flag != nullptr && std::filesystem::exists(flag)) {
    throw std::system_error{lost_context, cuda_category(), info_.label() + " failed"};
  }
}
std::uint64_t gpu::free_bytes() const { return info_.bytes; }
void gpu::flush_inbound_writes() const {}

cuda_memory::cuda_memory(gpu_ptr on, std::size_t size) : gpu_{std::move(on)}, size_{size} {
  auto made = std::make_unique<storage>(size);
  allocation_.address =
      fake_cuda::exports_dma_bufs ? std::bit_cast<std::uint64_t>(made->bytes.data()) : unmapped_address(size);
  allocation_.base = std::bit_cast<std::uint64_t>(made.release());
}
cuda_memory::~cuda_memory() { const std::unique_ptr<storage> all{&storage_at(allocation_.base)}; }
std::shared_ptr<const dma_buf> cuda_memory::export_dma_buf() {
  const auto& all = storage_at(allocation_.base);
  if (allocation_.address == std::bit_cast<std::uint64_t>(all.bytes.data())) {
    return std::make_shared<dma_buf>(fcntl(all.fd, F_DUPFD_CLOEXEC, 0), 0, size_);
  }
  throw std::system_error{std::make_error_code(std::errc::operation_not_supported),
                          gpu_->info().label() + " exports no dma-buf"};
}
void cuda_memory::write(std::size_t offset, std::span<const std::byte> from) {
  std::ranges::copy(from, storage_at(allocation_.base).bytes.subspan(offset).begin());
}
void cuda_memory::read(std::size_t offset, std::span<std::byte> to) const {
  std::ranges::copy(storage_at(allocation_.base).bytes.subspan(offset, to.size()), to.begin());
}
transfer_plan cuda_memory::plan() const noexcept {
  return {.piece = checksum_block_size, .readers = 1, .step = checksum_block_size};
}

namespace {

class writer final : public content_writer {
 public:
  explicit writer(std::span<std::byte> to) : to_{to} {}
  std::span<std::byte> next(std::size_t offset, std::size_t size) override { return last_ = to_.subspan(offset, size); }
  void commit(std::span<std::uint32_t> sums) override {
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto rest = last_.subspan(i * checksum_block_size);
      sums[i] = crc32c(rest.first(std::min(rest.size(), checksum_block_size)));
    }
  }
  void finish() override {}

 private:
  std::span<std::byte> to_;
  std::span<std::byte> last_;
};

}  // namespace

std::unique_ptr<content_writer> cuda_memory::make_writer(const std::stop_token& /*stop*/) {
  return std::make_unique<writer>(storage_at(allocation_.base).bytes);
}
void cuda_memory::fill(std::size_t offset, std::size_t size, std::byte value) {
  std::ranges::fill(storage_at(allocation_.base).bytes.subspan(offset, size), value);
}
void cuda_memory::fill_counting(std::size_t offset, std::size_t size) {
  const auto part = storage_at(allocation_.base).bytes.subspan(offset, size);
  for (std::size_t i = 0; i < size; ++i) {
    constexpr std::size_t word = sizeof(std::uint64_t);
    part[i] = static_cast<std::byte>(((offset + i) / word) >> (8 * ((offset + i) % word)));
  }
}
void cuda_memory::checksum_blocks(std::size_t first, std::span<std::uint32_t> sums) const {
  const auto bytes = storage_at(allocation_.base).bytes.subspan(first * checksum_block_size);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const auto rest = bytes.subspan(i * checksum_block_size);
    sums[i] = crc32c(rest.first(std::min(rest.size(), checksum_block_size)));
  }
}

staging_pool& staging() {
  static staging_pool none{
      {.allocate = [](std::size_t) -> std::byte* { throw std::bad_alloc{}; }, .release = [](std::byte*) {}}};
  return none;
}

}  // namespace gpurdma::memory
