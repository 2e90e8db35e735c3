// Instead of all that needs CUDA, where the program is built without: there is no GPU, and here is why.

#include <cstdlib>

#include "memory/cuda_memory.hpp"
#include "memory/staging.hpp"

namespace gpurdma::memory {
namespace {

constexpr auto reason = "this program was built without CUDA: install one that was built with it";

class category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "cuda"; }
  [[nodiscard]] std::string message(int value) const override { return "CUDA error " + std::to_string(value); }
};

[[noreturn]] void refuse() {
  throw std::system_error{std::make_error_code(std::errc::operation_not_supported), reason};
}

}  // namespace

const std::error_category& cuda_category() noexcept {
  static const category instance;
  return instance;
}
bool is_gpu_lost(const std::error_code& /*error*/) noexcept { return false; }
std::optional<std::string> cuda_unavailable() { return reason; }
std::string cuda_versions() { return reason; }
std::vector<gpu_info> list_gpus() { return {}; }
gpu_ptr find_gpu(std::string_view /*selector*/) { refuse(); }

// Without a gpu, none of these is ever called.
gpu::gpu(gpu_info info) : info_{std::move(info)} { refuse(); }
gpu::~gpu() = default;
void gpu::check(std::chrono::milliseconds /*limit*/) const { refuse(); }
std::uint64_t gpu::free_bytes() const { refuse(); }
void gpu::checksum(std::uint64_t, std::uint64_t, std::span<std::uint32_t>) const { refuse(); }
void gpu::flush_inbound_writes() const { refuse(); }
std::shared_ptr<const dma_buf> gpu::export_dma_buf(std::uint64_t, std::uint64_t) const { refuse(); }

cuda_memory::cuda_memory(gpu_ptr on, std::size_t size) : gpu_{std::move(on)}, size_{size} { refuse(); }
cuda_memory::~cuda_memory() = default;
std::shared_ptr<const dma_buf> cuda_memory::export_dma_buf() { refuse(); }
void cuda_memory::write(std::size_t, std::span<const std::byte>) { refuse(); }
void cuda_memory::read(std::size_t, std::span<std::byte>) const { refuse(); }
transfer_plan cuda_memory::plan() const noexcept { return {}; }
std::unique_ptr<content_writer> cuda_memory::make_writer(const std::stop_token&) { refuse(); }
void cuda_memory::fill(std::size_t, std::size_t, std::byte) { refuse(); }
void cuda_memory::fill_counting(std::size_t, std::size_t) { refuse(); }
void cuda_memory::checksum_blocks(std::size_t, std::span<std::uint32_t>) const { refuse(); }

staging_pool& staging() {
  static staging_pool none{{.allocate = [](std::size_t) -> std::byte* { refuse(); }, .release = [](std::byte*) {}}};
  return none;
}

}  // namespace gpurdma::memory
