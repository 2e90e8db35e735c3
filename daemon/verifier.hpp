#pragma once

// Compares buffers with the checksums taken when they were loaded.

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/buffer_pool.hpp"
#include "daemon/registration_cache.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon {

struct verification {
  std::string buffer;
  std::uint64_t version = 0;
  std::uint64_t bytes = 0;
  memory::gpu_ptr gpu;       ///< that has the memory; null for host memory
  std::exception_ptr error;  ///< why it could not be checked; else null
  std::string why;           ///< what is wrong, or why it could not be checked; empty where the data is right
};

/// Reads all memory of `versions` on one of `loaders`, one after the other, and logs each result. The one that is being
/// checked counts as registered meanwhile, so that nobody takes its memory for free; one that goes before its turn is
/// left out. `then` is told from the reactor; not at all once `stop` is requested.
void verify(rdma::workers& loaders, registration_cache& registrations, const std::vector<buffer_version_ptr>& versions,
            const std::stop_token& stop, std::function<void(const std::vector<verification>&)> then);

}  // namespace gpurdma::daemon
