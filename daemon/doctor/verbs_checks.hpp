#pragma once

// What the RDMA devices say of themselves through libibverbs and librdmacm.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config.hpp"
#include "daemon/doctor/findings.hpp"
#include "daemon/doctor/gpu_checks.hpp"
#include "rdma/device.hpp"
#include "rdma/listener.hpp"

namespace gpurdma::daemon::doctor {

struct adapter_survey {
  std::string name;
  std::vector<rdma::port_mtu> mtus;  ///< of port 1, 2 …
  bool registers_dma_bufs = false;
  std::optional<rdma::endpoint> address{};  ///< by which rdma_cm finds the device; port 0
};
/// Throws std::system_error; ENODEV where there is no RDMA device.
[[nodiscard]] std::vector<adapter_survey> survey_adapters();

[[nodiscard]] findings check_mtu(const std::vector<adapter_survey>& adapters);
/// Whether rdma_cm finds each device by an IP address.
[[nodiscard]] findings check_addresses(const std::vector<adapter_survey>& adapters);
/// By which way each device can reach GPU memory. Fails where `buffers` need one and may not be staged.
[[nodiscard]] findings check_gpu_paths(const std::filesystem::path& sys, const std::vector<adapter_survey>& adapters,
                                       const gpu_survey& gpus, const std::vector<buffer_config>& buffers);

}  // namespace gpurdma::daemon::doctor
