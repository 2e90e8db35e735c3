#pragma once

// Where a GPU and an RDMA adapter sit in a machine, from sysfs, and how far apart. No CUDA, no verbs.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gpurdma::memory {

struct pci_device {
  std::string address;                  ///< "0000:17:00.0"
  std::vector<std::string> path;        ///< from the host bridge ("pci0000:16") through bridges to the device itself
  std::optional<int> numa_node;         ///< nothing where the machine has but one, or does not say
  std::uint64_t largest_bar_bytes = 0;  ///< of its address ranges; 0 if it has none
};

/// The PCI device at `address`, or nothing if there is none.
[[nodiscard]] std::optional<pci_device> find_pci_device(std::string_view address,
                                                        const std::filesystem::path& sysfs = "/sys");
/// The PCI device of the RDMA device `name` ("mlx5_0"), or nothing: a device of software has none.
[[nodiscard]] std::optional<pci_device> find_rdma_pci_device(std::string_view name,
                                                             const std::filesystem::path& sysfs = "/sys");

/// What data between two devices passes, from near to far (in nvidia-smi's words: PIX or PXB, PHB, NODE, SYS).
enum class pci_distance { same_switch, same_host_bridge, same_numa_node, other_numa_node, unknown };

[[nodiscard]] pci_distance distance_between(const pci_device& a, const pci_device& b);
/// "behind the same PCIe switch" and the like.
[[nodiscard]] std::string_view describe(pci_distance distance) noexcept;

struct named_pci_device {
  std::string name;  ///< "GPU 0", "mlx5_0"
  pci_device pci;
};

/// Index of the adapter that is nearest to `gpu`, the first of equals; nothing if there is none.
[[nodiscard]] std::optional<std::size_t> nearest_adapter(const pci_device& gpu,
                                                         std::span<const named_pci_device> adapters);

/// What to tell the operator who serves the memory of `gpu` by `adapter`: something only if they sit on different NUMA
/// nodes. Names a better pair, if there is one: `gpu` with another of `adapters`, else another of `gpus` with
/// `adapter`.
[[nodiscard]] std::optional<std::string> warn_of_distance(const named_pci_device& gpu, const named_pci_device& adapter,
                                                          std::span<const named_pci_device> gpus,
                                                          std::span<const named_pci_device> adapters);

}  // namespace gpurdma::memory
