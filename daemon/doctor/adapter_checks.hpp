#pragma once

// The RDMA devices and their ports, from sysfs.

#include <filesystem>
#include <string>
#include <vector>

#include "daemon/doctor/findings.hpp"

namespace gpurdma::daemon::doctor {

/// Names of the RDMA devices, sorted.
[[nodiscard]] std::vector<std::string> rdma_device_names(const std::filesystem::path& sys);

[[nodiscard]] findings check_rdma_devices(const std::filesystem::path& sys);
/// State, link layer and rate of each port. A port that is down fails only where no other is up.
[[nodiscard]] findings check_ports(const std::filesystem::path& sys);
/// Of Ethernet ports: the GIDs of RoCE v2 that stand for an IP address.
[[nodiscard]] findings check_gids(const std::filesystem::path& sys);

}  // namespace gpurdma::daemon::doctor
