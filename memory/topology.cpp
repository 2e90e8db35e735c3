#include "memory/topology.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace gpurdma::memory {
namespace {

std::optional<int> read_numa_node(const std::filesystem::path& device) {
  int node = -1;
  std::ifstream{device / "numa_node"} >> node;
  return node < 0 ? std::nullopt : std::optional{node};
}

/// Of the file `resource`, which has a line "0xFIRST 0xLAST 0xFLAGS" for each address range. The first six are those
/// of the device's base address registers; a 64-bit one takes two. So a GPU's BAR1 is the second or the third (an H200
/// whose BAR0 has 64 bits, measured), but always its largest.
std::uint64_t read_largest_bar(const std::filesystem::path& device) {
  constexpr int bars = 6;
  std::ifstream file{device / "resource"};
  std::uint64_t largest = 0;
  std::string first;
  std::string last;
  std::string flags;
  for (int i = 0; i < bars && file >> first >> last >> flags; ++i) {
    try {
      const std::uint64_t begin = std::stoull(first, nullptr, 16);
      const std::uint64_t end = std::stoull(last, nullptr, 16);
      largest = std::max(largest, end > begin ? end - begin + 1 : 0);
    } catch (const std::exception&) {
      return 0;
    }
  }
  return largest;
}

/// `link` is a symbolic link to a device's folder, as sysfs has them.
std::optional<pci_device> read_device(const std::filesystem::path& link) {
  std::error_code error;
  const auto folder = std::filesystem::canonical(link, error);
  if (error) {
    return std::nullopt;
  }
  pci_device found{
      .address = folder.filename(), .path = {}, .numa_node = read_numa_node(folder), .largest_bar_bytes = 0};
  for (const auto& part : folder) {
    // Before the host bridge comes where sysfs is; between the bridges there may be other things, of virtual machines.
    if (!found.path.empty() || part.string().starts_with("pci")) {
      found.path.push_back(part);
    }
  }
  if (found.path.empty()) {
    return std::nullopt;
  }
  found.largest_bar_bytes = read_largest_bar(folder);
  return found;
}

}  // namespace

std::optional<pci_device> find_pci_device(std::string_view address, const std::filesystem::path& sysfs) {
  return read_device(sysfs / "bus/pci/devices" / address);
}

std::optional<pci_device> find_rdma_pci_device(std::string_view name, const std::filesystem::path& sysfs) {
  return read_device(sysfs / "class/infiniband" / name / "device");
}

pci_distance distance_between(const pci_device& a, const pci_device& b) {
  const auto shorter = std::min(a.path.size(), b.path.size());
  const auto [end, ignored] =
      std::mismatch(a.path.begin(), a.path.begin() + static_cast<std::ptrdiff_t>(shorter), b.path.begin());
  const auto shared = end - a.path.begin();
  if (shared >= 2) {  // the host bridge and a bridge below it
    return pci_distance::same_switch;
  }
  if (shared == 1) {
    return pci_distance::same_host_bridge;
  }
  if (!a.numa_node || !b.numa_node) {
    return pci_distance::unknown;
  }
  return *a.numa_node == *b.numa_node ? pci_distance::same_numa_node : pci_distance::other_numa_node;
}

std::string_view describe(pci_distance distance) noexcept {
  switch (distance) {
    case pci_distance::same_switch:
      return "behind the same PCIe switch";
    case pci_distance::same_host_bridge:
      return "behind the same PCIe host bridge";
    case pci_distance::same_numa_node:
      return "behind different PCIe host bridges of one NUMA node";
    case pci_distance::other_numa_node:
      return "on different NUMA nodes";
    case pci_distance::unknown:
      break;
  }
  return "at an unknown distance";
}

std::optional<std::size_t> nearest_adapter(const pci_device& gpu, std::span<const named_pci_device> adapters) {
  const auto nearest = std::ranges::min_element(
      adapters, {}, [&](const named_pci_device& adapter) { return distance_between(gpu, adapter.pci); });
  return nearest == adapters.end() ? std::nullopt : std::optional{static_cast<std::size_t>(nearest - adapters.begin())};
}

std::optional<std::string> warn_of_distance(const named_pci_device& gpu, const named_pci_device& adapter,
                                            std::span<const named_pci_device> gpus,
                                            std::span<const named_pci_device> adapters) {
  const auto place = [](const named_pci_device& of) {
    return of.name + " (" + of.pci.address + ") is on NUMA node " + std::to_string(*of.pci.numa_node);
  };
  if (distance_between(gpu.pci, adapter.pci) != pci_distance::other_numa_node) {
    return std::nullopt;
  }
  auto text = place(gpu) + ", " + place(adapter) + ": reads cross the link between the processors";
  const auto nearest = nearest_adapter(gpu.pci, adapters);
  if (nearest && distance_between(gpu.pci, adapters[*nearest].pci) < pci_distance::other_numa_node) {
    return text + "; better serve " + gpu.name + " by " + adapters[*nearest].name + ", " +
           std::string{describe(distance_between(gpu.pci, adapters[*nearest].pci))};
  }
  const auto other = nearest_adapter(adapter.pci, gpus);
  if (other && distance_between(gpus[*other].pci, adapter.pci) < pci_distance::other_numa_node) {
    return text + "; better serve " + gpus[*other].name + " by " + adapter.name + ", " +
           std::string{describe(distance_between(gpus[*other].pci, adapter.pci))};
  }
  return text + "; no pair of this machine is better";
}

}  // namespace gpurdma::memory
