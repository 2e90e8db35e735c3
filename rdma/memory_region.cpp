#include "rdma/memory_region.hpp"

#include <sys/resource.h>

#include <bit>
#include <string>

#include "rdma/error.hpp"

namespace gpurdma::rdma {
namespace {

std::string hint(const std::error_code& why) {
  rlimit limit{};
  if (why != std::errc::not_enough_memory || getrlimit(RLIMIT_MEMLOCK, &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return {};
  }
  return "; the limit of locked memory (RLIMIT_MEMLOCK, `ulimit -l`) is " + std::to_string(limit.rlim_cur) +
         " bytes: raise it (LimitMEMLOCK=infinity in the unit)";
}

int flags_of(region_access access) noexcept {
  return access == region_access::local_write ? IBV_ACCESS_LOCAL_WRITE : IBV_ACCESS_REMOTE_READ;
}

}  // namespace

memory_region::memory_region(ibv_pd& domain, std::uint64_t address, std::size_t length, region_access access) {
  const auto flags = static_cast<unsigned>(flags_of(access));
  region_.reset(ibv_reg_mr(&domain, std::bit_cast<void*>(address), length, flags));
  if (!region_) {
    const auto why = last_error();
    fail(why, "cannot register " + std::to_string(length) + " bytes of memory on " +
                  ibv_get_device_name(domain.context->device) + hint(why));
  }
}

memory_region::memory_region(ibv_pd& domain, dma_buf_place place, std::uint64_t address, std::size_t length,
                             region_access access)
    : region_{ibv_reg_dmabuf_mr(&domain, place.offset, length, address, place.fd, flags_of(access))} {
  if (!region_) {
    fail(last_error(), "cannot register a dma-buf of " + std::to_string(length) + " bytes on " +
                           ibv_get_device_name(domain.context->device));
  }
}

}  // namespace gpurdma::rdma
