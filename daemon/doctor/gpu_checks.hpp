#pragma once

// The GPUs of this machine, and what the configuration asks of them.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "daemon/config.hpp"
#include "daemon/doctor/findings.hpp"
#include "daemon/doctor/host_checks.hpp"
#include "memory/gpu.hpp"

namespace gpurdma::daemon::doctor {

struct gpu_survey {
  std::optional<std::string> unavailable;  ///< why no GPU can be used at all
  std::string versions;                    ///< of CUDA
  std::vector<memory::gpu_info> gpus;
};
/// Throws std::system_error.
[[nodiscard]] gpu_survey survey_gpus();

/// Whether any of `buffers` is on a GPU: then what a GPU needs must be there, else it is a hint.
[[nodiscard]] bool needs_gpu(const std::vector<buffer_config>& buffers) noexcept;

/// The index of the GPU that `buffer` names; nothing where it names none, or one that is not there.
[[nodiscard]] std::optional<int> gpu_of(const buffer_config& buffer, const gpu_survey& found);

/// The kernel module, its version and kind.
[[nodiscard]] findings check_nvidia_driver(const kernel_files& in, bool needed);
/// CUDA, each GPU, and each GPU that `buffers` name and that is not there.
[[nodiscard]] findings check_gpus(const gpu_survey& found, const std::vector<buffer_config>& buffers);
[[nodiscard]] findings check_dma_buf(const gpu_survey& found);
/// What adapters can reach at once of each GPU against what `buffers` put there.
[[nodiscard]] findings check_bar1(const gpu_survey& found, const std::vector<buffer_config>& buffers);
/// How far each GPU and each RDMA device are apart.
[[nodiscard]] findings check_topology(const std::filesystem::path& sys, const gpu_survey& found,
                                      const std::vector<std::string>& rdma_devices);

}  // namespace gpurdma::daemon::doctor
