#pragma once

// What the kernel of this machine allows and has loaded, from its files.

#include <cstdint>
#include <filesystem>
#include <string>

#include "daemon/doctor/findings.hpp"

namespace gpurdma::daemon::doctor {

/// Where the kernel's files are; elsewhere in tests.
struct kernel_files {
  std::filesystem::path sys = "/sys";
  std::filesystem::path proc = "/proc";
  std::filesystem::path dev = "/dev";
};

/// The first line of a file, without the newline; empty where there is none.
[[nodiscard]] std::string first_line(const std::filesystem::path& file);

/// ib_uverbs and rdma_ucm, as modules or built in.
[[nodiscard]] findings check_kernel_modules(const kernel_files& in);
/// Whether this process may open what libibverbs and librdmacm open.
[[nodiscard]] findings check_device_files(const kernel_files& in);
/// The limit of locked memory of this process against the `needed` bytes of host memory to be registered.
[[nodiscard]] findings check_memlock(const kernel_files& in, std::uint64_t needed);
/// Hints on what may keep adapters from reaching GPUs. Of interest where there are GPUs.
[[nodiscard]] findings check_iommu(const kernel_files& in);

}  // namespace gpurdma::daemon::doctor
