#include "memory/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/unit/files.hpp"

namespace gpurdma::memory {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A made-up /sys.
class sysfs {
 public:
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return folder_.path(); }

  /// `where` is below devices/, its last part the address.
  void add_pci(const std::filesystem::path& where, int numa_node, const std::string& resource = "") const {
    const auto device = path() / "devices" / where;
    std::filesystem::create_directories(device);
    std::ofstream{device / "numa_node"} << numa_node << '\n';
    std::ofstream{device / "resource"} << resource;
    std::filesystem::create_directories(path() / "bus/pci/devices");
    std::filesystem::create_directory_symlink(device, path() / "bus/pci/devices" / where.filename());
  }
  void add_rdma(const std::string& name, const std::filesystem::path& device) const {
    std::filesystem::create_directories(path() / "class/infiniband" / name);
    if (!device.empty()) {
      std::filesystem::create_directory_symlink(path() / "devices" / device,
                                                path() / "class/infiniband" / name / "device");
    }
  }

 private:
  test::scratch_folder folder_;
};

/// Two processors; behind the first a switch with a GPU and an adapter, and an adapter of another host bridge's.
class topology : public testing::Test {
 protected:
  topology() {
    const std::string bars =
        "0x00000000a1000000 0x00000000a1ffffff 0x0000000000040200\n"
        "0x0000202000000000 0x0000203fffffffff 0x000000000014220c\n"
        "0x0000000000000000 0x0000000000000000 0x0000000000000000\n";
    tree.add_pci("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:00.0/0000:19:00.0", 0, bars);
    tree.add_pci("pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0", 0);
    tree.add_pci("pci0000:16/0000:16:05.0/0000:20:00.0", 0);
    // The first range has 64 bits and takes two; the seventh is a ROM's.
    tree.add_pci("pci0000:40/0000:40:01.0/0000:41:00.0", 0,
                 "0x0000380000000000 0x0000380000ffffff 0x0000000000140204\n"
                 "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                 "0x0000382000000000 0x0000385fffffffff 0x000000000014220c\n"
                 "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                 "0x0000380001000000 0x0000380002ffffff 0x000000000014220c\n"
                 "0x0000000000000000 0x0000000000000000 0x0000000000000000\n"
                 "0x0000000000000000 0x0000ffffffffffff 0x0000000000046200\n");
    tree.add_pci("pci0000:80/0000:80:01.0/0000:81:00.0", 1);
    tree.add_pci("pci0000:90/0000:90:01.0/0000:91:00.0", 1);
    tree.add_pci("pci0000:a0/0000:a0:01.0/0000:a1:00.0", -1);
    tree.add_rdma("mlx5_0", "pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:01.0/0000:1a:00.0");
    tree.add_rdma("rxe0", "");
  }
  [[nodiscard]] pci_device at(const std::string& address) const { return *find_pci_device(address, tree.path()); }
  [[nodiscard]] named_pci_device named(const std::string& name, const std::string& address) const {
    return {name, at(address)};
  }

  sysfs tree;
};

TEST_F(topology, finds_a_device_its_path_and_its_memory) {
  const auto gpu = at("0000:19:00.0");
  EXPECT_EQ(gpu.address, "0000:19:00.0");
  EXPECT_THAT(gpu.path, ElementsAre("pci0000:16", "0000:16:01.0", "0000:17:00.0", "0000:18:00.0", "0000:19:00.0"));
  EXPECT_EQ(gpu.numa_node, 0);
  EXPECT_EQ(gpu.largest_bar_bytes, std::uint64_t{128} << 30U);
  EXPECT_EQ(at("0000:41:00.0").largest_bar_bytes, std::uint64_t{256} << 30U);
}

TEST_F(topology, says_what_it_does_not_know) {
  const auto device = at("0000:a1:00.0");
  EXPECT_EQ(device.numa_node, std::nullopt);
  EXPECT_EQ(device.largest_bar_bytes, 0U);
  EXPECT_FALSE(find_pci_device("0000:ff:00.0", tree.path()));
  EXPECT_FALSE(find_rdma_pci_device("mlx5_9", tree.path()));
}

TEST_F(topology, finds_the_pci_device_of_an_rdma_device) {
  EXPECT_EQ(find_rdma_pci_device("mlx5_0", tree.path())->address, "0000:1a:00.0");
  EXPECT_FALSE(find_rdma_pci_device("rxe0", tree.path()));
}

TEST_F(topology, tells_distances) {
  const auto gpu = at("0000:19:00.0");
  EXPECT_EQ(distance_between(gpu, at("0000:1a:00.0")), pci_distance::same_switch);
  EXPECT_EQ(distance_between(gpu, at("0000:20:00.0")), pci_distance::same_host_bridge);
  EXPECT_EQ(distance_between(gpu, at("0000:41:00.0")), pci_distance::same_numa_node);
  EXPECT_EQ(distance_between(gpu, at("0000:81:00.0")), pci_distance::other_numa_node);
  EXPECT_EQ(distance_between(at("0000:81:00.0"), gpu), pci_distance::other_numa_node);
  EXPECT_EQ(distance_between(gpu, at("0000:a1:00.0")), pci_distance::unknown);
  EXPECT_THAT(std::string{describe(pci_distance::same_switch)}, HasSubstr("switch"));
}

TEST_F(topology, finds_the_nearest_adapter) {
  const std::vector adapters{named("mlx5_3", "0000:81:00.0"), named("mlx5_2", "0000:41:00.0"),
                             named("mlx5_1", "0000:20:00.0"), named("mlx5_0", "0000:1a:00.0")};
  EXPECT_EQ(nearest_adapter(at("0000:19:00.0"), adapters), 3U);
  EXPECT_EQ(nearest_adapter(at("0000:91:00.0"), adapters), 0U);
  EXPECT_EQ(nearest_adapter(at("0000:91:00.0"), {}), std::nullopt);
}

TEST_F(topology, warns_of_different_numa_nodes_and_names_a_better_pair) {
  const std::vector gpus{named("GPU 0", "0000:19:00.0"), named("GPU 1", "0000:91:00.0")};
  const std::vector adapters{named("mlx5_0", "0000:1a:00.0"), named("mlx5_1", "0000:81:00.0")};
  EXPECT_EQ(warn_of_distance(gpus[0], adapters[0], gpus, adapters), std::nullopt);
  EXPECT_EQ(warn_of_distance(gpus[0], adapters[1], gpus, adapters),
            "GPU 0 (0000:19:00.0) is on NUMA node 0, mlx5_1 (0000:81:00.0) is on NUMA node 1: reads cross the link "
            "between the processors; better serve GPU 0 by mlx5_0, behind the same PCIe switch");
  EXPECT_THAT(*warn_of_distance(gpus[0], adapters[1], gpus, std::vector{adapters[1]}),
              HasSubstr("better serve GPU 1 by mlx5_1, behind different PCIe host bridges of one NUMA node"));
  EXPECT_THAT(*warn_of_distance(gpus[0], adapters[1], std::vector{gpus[0]}, std::vector{adapters[1]}),
              HasSubstr("no pair of this machine is better"));
}

TEST_F(topology, does_not_warn_of_what_it_does_not_know) {
  const auto gpu = named("GPU 0", "0000:a1:00.0");
  const auto adapter = named("mlx5_0", "0000:1a:00.0");
  EXPECT_EQ(warn_of_distance(gpu, adapter, std::vector{gpu}, std::vector{adapter}), std::nullopt);
}

}  // namespace
}  // namespace gpurdma::memory
