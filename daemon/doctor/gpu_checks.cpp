#include "daemon/doctor/gpu_checks.hpp"

#include <algorithm>
#include <map>
#include <system_error>
#include <utility>

#include "memory/byte_size.hpp"
#include "memory/topology.hpp"

namespace gpurdma::daemon::doctor {
namespace {

constexpr verdict unless(bool needed) noexcept { return needed ? verdict::fail : verdict::warn; }

std::string numa_text(const memory::gpu_info& gpu) {
  return gpu.numa_node ? ", NUMA node " + std::to_string(*gpu.numa_node) : std::string{};
}

}  // namespace

gpu_survey survey_gpus() {
  return {.unavailable = memory::cuda_unavailable(), .versions = memory::cuda_versions(), .gpus = memory::list_gpus()};
}

bool needs_gpu(const std::vector<buffer_config>& buffers) noexcept {
  return std::ranges::any_of(buffers, [](const auto& b) { return b.gpu.has_value(); });
}

std::optional<int> gpu_of(const buffer_config& buffer, const gpu_survey& found) {
  try {
    return buffer.gpu ? std::optional{memory::select_gpu(found.gpus, *buffer.gpu).index} : std::nullopt;
  } catch (const std::system_error&) {
    return std::nullopt;
  }
}

findings check_nvidia_driver(const kernel_files& in, bool needed) {
  const auto version = first_line(in.sys / "module/nvidia/version");
  if (version.empty()) {
    return {{unless(needed), "NVIDIA driver", "", "the module nvidia is not loaded",
             "to serve GPU memory, install NVIDIA's driver with the open kernel modules, and modprobe nvidia"}};
  }
  const auto described = first_line(in.proc / "driver/nvidia/version");
  const bool open = described.find("Open Kernel Module") != std::string::npos;
  const bool known = !described.empty();
  return {{verdict::ok, "NVIDIA driver", "",
           version + (open    ? ", open kernel modules"
                      : known ? ", proprietary"
                              : "")}};
}

findings check_gpus(const gpu_survey& found, const std::vector<buffer_config>& buffers) {
  if (found.unavailable) {
    return {{unless(needs_gpu(buffers)), "CUDA", "", *found.unavailable,
             needs_gpu(buffers) ? "the configuration has memory: cuda: mend this, or serve host memory"
                                : "nothing, unless GPU memory is to be served"}};
  }
  findings rows{{verdict::ok, "CUDA", "", found.versions}};
  for (const auto& gpu : found.gpus) {
    rows.push_back(
        {verdict::ok, "GPU", gpu.label(), memory::format_byte_size(gpu.bytes) + ", " + gpu.uuid + numa_text(gpu)});
  }
  for (const auto& buffer : buffers) {
    try {
      if (buffer.gpu) {
        static_cast<void>(memory::select_gpu(found.gpus, *buffer.gpu));
      }
    } catch (const std::system_error& e) {
      rows.push_back({verdict::fail, "GPU", "buffer " + buffer.name, e.what(), "correct its gpu in the configuration"});
    }
  }
  return rows;
}

findings check_dma_buf(const gpu_survey& found) {
  findings rows;
  for (const auto& gpu : found.gpus) {
    if (gpu.dma_buf_supported) {
      rows.push_back({verdict::ok, "dma-buf export", gpu.label(), "supported"});
    } else {
      rows.push_back({verdict::warn, "dma-buf export", gpu.label(),
                      "not supported: it takes NVIDIA's open kernel modules, Linux 5.12 and a GPU of Turing or later",
                      "install the open kernel modules, or load nvidia_peermem"});
    }
  }
  return rows;
}

findings check_bar1(const gpu_survey& found, const std::vector<buffer_config>& buffers) {
  std::map<int, std::uint64_t> pools;
  for (const auto& buffer : buffers) {
    if (const auto index = gpu_of(buffer, found)) {
      pools[*index] += buffer.size;
    }
  }
  findings rows;
  for (const auto& gpu : found.gpus) {
    const auto pool = pools[gpu.index];
    const auto wanted = memory::format_byte_size(pool) + " configured";
    if (gpu.bar1_bytes == 0) {
      rows.push_back(
          {verdict::warn, "BAR1", gpu.label(), "its size is unknown; " + wanted, "nvidia-smi -q -d MEMORY shows it"});
    } else if (gpu.bar1_bytes < pool) {
      rows.push_back({verdict::fail, "BAR1", gpu.label(),
                      "adapters reach " + memory::format_byte_size(gpu.bar1_bytes) + " at once; " + wanted,
                      "switch on Resizable BAR or Above 4G Decoding in the firmware, or serve less from this GPU"});
    } else {
      rows.push_back({verdict::ok, "BAR1", gpu.label(), memory::format_byte_size(gpu.bar1_bytes) + "; " + wanted});
    }
  }
  return rows;
}

findings check_topology(const std::filesystem::path& sys, const gpu_survey& found,
                        const std::vector<std::string>& rdma_devices) {
  std::vector<memory::named_pci_device> gpus;
  std::vector<memory::named_pci_device> adapters;
  for (const auto& gpu : found.gpus) {
    if (auto pci = memory::find_pci_device(gpu.pci_address, sys)) {
      gpus.push_back({gpu.label(), std::move(*pci)});
    }
  }
  for (const auto& name : rdma_devices) {
    if (auto pci = memory::find_rdma_pci_device(name, sys)) {
      adapters.push_back({name, std::move(*pci)});
    }
  }
  findings rows;
  for (const auto& gpu : gpus) {
    for (const auto& adapter : adapters) {
      const std::string path{memory::describe(memory::distance_between(gpu.pci, adapter.pci))};
      const auto warning = memory::warn_of_distance(gpu, adapter, gpus, adapters);
      rows.push_back(
          {warning ? verdict::warn : verdict::ok, "topology", gpu.name + " - " + adapter.name, warning.value_or(path),
           warning ? "listen on the address of the nearer adapter, or place the buffer on the nearer GPU" : ""});
    }
  }
  return rows;
}

}  // namespace gpurdma::daemon::doctor
