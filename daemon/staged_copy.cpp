#include "daemon/staged_copy.hpp"

#include <stop_token>
#include <system_error>
#include <utility>

namespace gpurdma::daemon {

const memory::host_memory& staged_copy::of(const memory::buffer_memory& original,
                                           const memory::content_checksums& loaded) {
  const std::lock_guard lock{making_};
  if (!exists_) {
    auto made = std::make_unique<memory::host_memory>(original.size());
    original.read(0, made->bytes());
    if (memory::checksum(*made, std::stop_token{}) != loaded) {
      throw std::system_error{std::make_error_code(std::errc::io_error),
                              "the copy of the GPU's memory is not what was loaded into it"};
    }
    copy_ = std::move(made);
    exists_ = true;
  }
  return *copy_;
}

}  // namespace gpurdma::daemon
