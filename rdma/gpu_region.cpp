#include "rdma/gpu_region.hpp"

#include <cerrno>
#include <optional>
#include <utility>

#include "rdma/error.hpp"

namespace gpurdma::rdma {
namespace {

/// Whether the error says that there is no such way on this machine, as opposed to a way that failed. Kernels before
/// 5.12 do not know the method (EPROTONOSUPPORT, ENOSYS); drivers without it say EOPNOTSUPP.
bool is_no_dma_buf(const std::error_code& why) {
  return why == std::errc::operation_not_supported || why == std::errc::protocol_not_supported ||
         why == std::errc::function_not_supported;
}

/// The kernel finds no pages at a GPU's address unless nvidia-peermem resolves it.
bool is_no_peer_memory(const std::error_code& why) { return why == std::errc::bad_address; }

std::string device_name(const ibv_pd& domain) { return ibv_get_device_name(domain.context->device); }

std::optional<dma_buf_place> export_of(const gpu_range& what, std::string& why) {
  try {
    return what.export_dma_buf();
  } catch (const std::system_error& e) {
    if (e.code() != std::errc::operation_not_supported) {
      throw;
    }
    why = e.what();
    return std::nullopt;
  }
}

std::optional<memory_region> by_dma_buf(ibv_pd& domain, const gpu_range& what, region_access access, std::string& why) {
  const auto place = export_of(what, why);
  if (!place) {
    return std::nullopt;
  }
  try {
    return memory_region{domain, *place, what.address, what.length, access};
  } catch (const std::system_error& e) {
    if (!is_no_dma_buf(e.code())) {
      throw;
    }
    why = device_name(domain) + " does not register dma-bufs";
    return std::nullopt;
  }
}

}  // namespace

const char* name_of(gpu_path path) noexcept { return path == gpu_path::dma_buf ? "dma-buf" : "nvidia-peermem"; }

gpu_region register_gpu_memory(ibv_pd& domain, const gpu_range& what, region_access access) {
  std::string why;
  if (auto region = by_dma_buf(domain, what, access, why)) {
    return {std::move(*region), gpu_path::dma_buf, {}};
  }
  try {
    return {memory_region{domain, what.address, what.length, access}, gpu_path::peer_memory, why};
  } catch (const std::system_error& e) {
    if (!is_no_peer_memory(e.code())) {
      throw;
    }
    throw no_gpu_path{what.gpu + " memory cannot be registered on " + device_name(domain) + ": " + why +
                      ", and nvidia_peermem is not loaded"};
  }
}

bool registers_dma_bufs(ibv_pd& domain) noexcept {
  constexpr std::size_t page = 4096;
  constexpr int no_descriptor = -1;
  const memory_region_handle none{ibv_reg_dmabuf_mr(&domain, 0, page, 0, no_descriptor, IBV_ACCESS_REMOTE_READ)};
  return !none && errno == EBADF;
}

}  // namespace gpurdma::rdma
