#pragma once

// A real READ: of a buffer, over an adapter, by a second connection of the same process.

#include <chrono>

#include "daemon/config.hpp"
#include "daemon/doctor/findings.hpp"
#include "rdma/listener.hpp"

namespace gpurdma::daemon::doctor {

struct loopback_read {
  read_measurement measured;
  std::string why;     ///< why not by a better path; empty where there is none
  bool right = false;  ///< the bytes that arrived have the checksums of those that were served
};

/// Loads `what`, registers it as the server does, connects to `at` (of this machine; its port is not used) and reads
/// all of it into host memory. Blocks, for little longer than `limit` if the device or the CM does not answer. Throws
/// std::exception with a sentence; rdma::no_gpu_path where the adapter cannot reach the GPU.
[[nodiscard]] loopback_read read_over_loopback(const rdma::endpoint& at, const buffer_config& what,
                                               std::chrono::milliseconds limit);

}  // namespace gpurdma::daemon::doctor
