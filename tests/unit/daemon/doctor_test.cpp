// What the doctor makes of a machine, on made-up ones.

#include "daemon/doctor/doctor.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <stdexcept>
#include <thread>

#include "daemon/doctor/adapter_checks.hpp"
#include "daemon/doctor/gpu_checks.hpp"
#include "daemon/doctor/verbs_checks.hpp"
#include "tests/unit/files.hpp"

namespace gpurdma::daemon::doctor {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

/// A made-up machine without anything.
class doctor : public testing::Test {
 protected:
  [[nodiscard]] kernel_files kernel() const { return {folder / "sys", folder / "proc", folder / "dev"}; }
  void write(const std::string& file, const std::string& text) const {
    const auto path = folder / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream{path} << text;
  }
  void add_port(const std::string& device, const std::string& state, const std::string& layer = "Ethernet") const {
    const auto port = "sys/class/infiniband/" + device + "/ports/1/";
    write(port + "state", state + "\n");
    write(port + "link_layer", layer + "\n");
    write(port + "rate", "400 Gb/sec (4X NDR)\n");
  }
  void add_gid(const std::string& device, const std::string& index, const std::string& gid,
               const std::string& type) const {
    const auto port = "sys/class/infiniband/" + device + "/ports/1/";
    write(port + "gids/" + index, gid + "\n");
    write(port + "gid_attrs/types/" + index, type + "\n");
  }

  test::scratch_folder folder;
};

std::vector<verdict> results_of(const findings& rows) {
  std::vector<verdict> all;
  std::ranges::transform(rows, std::back_inserter(all), &finding::result);
  return all;
}

/// Whatever is not well says what to do.
void expect_remedies(const findings& rows) {
  for (const auto& row : rows) {
    EXPECT_EQ(row.result == verdict::ok, row.remedy.empty()) << row.check << " " << row.what;
    EXPECT_FALSE(row.check.empty());
    EXPECT_FALSE(row.what.empty());
  }
}

const findings three{{verdict::ok, "port", "mlx5_0 port 1", "ACTIVE"},
                     {verdict::warn, "MTU", "mlx5_0 port 1", "1024 bytes", "ip link set"},
                     {verdict::fail, "memlock", "", "64 KiB", "ulimit"}};

TEST(doctor_table, aligns_and_counts) {
  EXPECT_EQ(table(three),
            "ok    port     mlx5_0 port 1  ACTIVE\n"
            "WARN  MTU      mlx5_0 port 1  1024 bytes\n"
            "      -> ip link set\n"
            "FAIL  memlock                 64 KiB\n"
            "      -> ulimit\n"
            "1 ok, 1 to look at, 1 failed\n");
  EXPECT_EQ(table({}), "0 ok, 0 to look at, 0 failed\n");
}

TEST(doctor_table, is_as_bad_as_its_worst_row) {
  EXPECT_EQ(worst_of({}), verdict::ok);
  EXPECT_EQ(worst_of({three[0], three[1]}), verdict::warn);
  EXPECT_EQ(worst_of({three[2], three[1]}), verdict::fail);
}

TEST(doctor_json, is_one_object) {
  auto rows = three;
  rows[0].what = "\"quoted\"\n";
  rows[0].measured = {.path = "host", .bytes = 16U << 20U, .seconds = 0.5, .crc32c = 0xABC};
  const auto text = json(rows, 6);
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  const auto parsed = boost::json::parse(text).as_object();
  EXPECT_EQ(parsed.at("status"), 6);
  EXPECT_EQ(parsed.at("fail"), 1);
  const auto& first = parsed.at("checks").as_array().at(0).as_object();
  EXPECT_EQ(first.at("what"), "\"quoted\"\n");
  EXPECT_EQ(first.at("result"), "ok");
  EXPECT_EQ(first.at("read").as_object().at("crc32c"), "00000abc");
  EXPECT_EQ(first.at("read").as_object().at("bytes"), 16U << 20U);
  EXPECT_FALSE(parsed.at("checks").as_array().at(1).as_object().contains("read"));
}

TEST(doctor_checklist, outlives_checks_that_throw_or_hang) {
  checklist list;
  list.run("throws", 10s, []() -> findings { throw std::runtime_error{"no such thing"}; });
  EXPECT_FALSE(list.is_stuck());
  list.run("hangs", 20ms, []() -> findings {
    std::this_thread::sleep_for(500ms);
    return {};
  });
  list.run("works", 10s, [] { return three; });
  EXPECT_TRUE(list.is_stuck());
  EXPECT_EQ(list.find_out<int>("number", 10s, [] { return 7; }), 7);
  ASSERT_EQ(list.rows().size(), 5U);
  EXPECT_EQ(list.rows()[0].what, "no such thing");
  EXPECT_THAT(list.rows()[1].what, HasSubstr("no answer within 20 ms"));
  EXPECT_EQ(list.rows()[1].result, verdict::fail);
  expect_remedies(list.rows());
  std::this_thread::sleep_for(600ms);  // the sanitizers see the thread end
}

TEST_F(doctor, finds_modules_loaded_or_built_in) {
  auto rows = check_kernel_modules(kernel());
  EXPECT_THAT(results_of(rows), ElementsAre(verdict::fail, verdict::fail));
  EXPECT_THAT(rows[1].remedy, HasSubstr("modprobe rdma_ucm"));
  expect_remedies(rows);
  write("sys/module/ib_uverbs/refcnt", "1\n");
  write("dev/infiniband/rdma_cm", "");
  rows = check_kernel_modules(kernel());
  EXPECT_THAT(results_of(rows), ElementsAre(verdict::ok, verdict::ok));
  expect_remedies(rows);
}

TEST_F(doctor, wants_the_device_files) {
  EXPECT_THAT(check_device_files(kernel())[0].what, HasSubstr("has no rdma_cm"));
  write("dev/infiniband/rdma_cm", "");
  EXPECT_THAT(check_device_files(kernel())[0].what, HasSubstr("no uverbs file"));
  expect_remedies(check_device_files(kernel()));
  write("dev/infiniband/uverbs0", "");
  EXPECT_EQ(check_device_files(kernel())[0].result, verdict::ok);
  EXPECT_THAT(check_device_files(kernel())[0].what, HasSubstr("uverbs0"));
}

TEST_F(doctor, compares_locked_memory_with_what_is_needed) {
  constexpr std::uint64_t MiB = 1U << 20U;
  write("proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
  write("proc/self/limits",
        "Limit  Soft Limit  Hard Limit  Units\nMax locked memory         8388608     8388608     bytes\n");
  EXPECT_EQ(check_memlock(kernel(), 8 * MiB)[0].result, verdict::ok);
  const auto rows = check_memlock(kernel(), 32 * MiB);
  EXPECT_EQ(rows[0].result, verdict::fail);
  EXPECT_THAT(rows[0].what, HasSubstr("is 8 MiB; needed are 32 MiB"));
  EXPECT_THAT(rows[0].remedy, HasSubstr("ulimit -l unlimited"));
  write("proc/self/status", "CapEff:\t0000000000004000\n");
  EXPECT_EQ(check_memlock(kernel(), 32 * MiB)[0].result, verdict::ok);
  write("proc/self/limits", "Max locked memory         unlimited            unlimited            bytes\n");
  EXPECT_THAT(check_memlock(kernel(), 32 * MiB)[0].what, HasSubstr("unlimited"));
}

TEST_F(doctor, hints_at_an_iommu_that_translates) {
  EXPECT_EQ(check_iommu(kernel())[0].result, verdict::ok);
  std::filesystem::create_directories(folder / "sys/class/iommu");
  EXPECT_EQ(check_iommu(kernel())[0].result, verdict::ok);
  write("sys/class/iommu/dmar0/x", "");
  write("proc/cmdline", "quiet intel_iommu=on noiommu=pt\n");
  EXPECT_EQ(check_iommu(kernel())[0].result, verdict::warn);
  expect_remedies(check_iommu(kernel()));
  write("proc/cmdline", "quiet iommu=pt\n");
  EXPECT_EQ(check_iommu(kernel())[0].result, verdict::ok);
}

TEST_F(doctor, wants_an_rdma_device) {
  EXPECT_TRUE(rdma_device_names(kernel().sys).empty());
  EXPECT_THAT(results_of(check_rdma_devices(kernel().sys)), ElementsAre(verdict::fail));
  expect_remedies(check_rdma_devices(kernel().sys));
  EXPECT_TRUE(check_ports(kernel().sys).empty());
  EXPECT_TRUE(check_gids(kernel().sys).empty());
  add_port("mlx5_1", "4: ACTIVE");
  add_port("mlx5_0", "4: ACTIVE");
  write("sys/class/infiniband/mlx5_0/fw_ver", "28.43.1014\n");
  EXPECT_THAT(rdma_device_names(kernel().sys), ElementsAre("mlx5_0", "mlx5_1"));
  EXPECT_EQ(check_rdma_devices(kernel().sys)[0].what, "firmware 28.43.1014");
}

TEST_F(doctor, fails_for_ports_that_are_down_only_where_none_is_up) {
  add_port("mlx5_0", "1: DOWN");
  EXPECT_THAT(results_of(check_ports(kernel().sys)), ElementsAre(verdict::fail));
  add_port("mlx5_1", "2: INIT", "InfiniBand");
  EXPECT_THAT(check_ports(kernel().sys)[1].remedy, HasSubstr("opensm"));
  add_port("mlx5_2", "4: ACTIVE");
  const auto rows = check_ports(kernel().sys);
  EXPECT_THAT(results_of(rows), ElementsAre(verdict::warn, verdict::warn, verdict::ok));
  EXPECT_EQ(rows[0].what, "DOWN, Ethernet");
  EXPECT_EQ(rows[2].subject, "mlx5_2 port 1");
  EXPECT_EQ(rows[2].what, "ACTIVE, Ethernet, 400 Gb/sec (4X NDR)");
  expect_remedies(rows);
}

TEST_F(doctor, wants_a_gid_of_roce_v2_with_an_address) {
  add_port("mlx5_0", "4: ACTIVE");
  add_gid("mlx5_0", "0", "fe80:0000:0000:0000:0202:00ff:fe00:0901", "RoCE v2");
  add_gid("mlx5_0", "1", "0000:0000:0000:0000:0000:ffff:0a09:0001", "IB/RoCE v1");
  add_gid("mlx5_0", "2", "0000:0000:0000:0000:0000:0000:0000:0000", "");
  EXPECT_THAT(results_of(check_gids(kernel().sys)), ElementsAre(verdict::fail));
  expect_remedies(check_gids(kernel().sys));
  add_gid("mlx5_0", "3", "0000:0000:0000:0000:0000:ffff:0a09:0001", "RoCE v2");
  add_gid("mlx5_0", "10", "fd00:0009:0000:0000:0000:0000:0000:0001", "RoCE v2");
  EXPECT_EQ(check_gids(kernel().sys)[0].what, "RoCE v2 with an IP address: 3: 10.9.0.1, 10: fd00:9::1");
  add_port("mlx5_1", "4: ACTIVE");
  EXPECT_THAT(results_of(check_gids(kernel().sys)), ElementsAre(verdict::ok, verdict::warn));
  add_port("mlx5_1", "4: ACTIVE", "InfiniBand");
  EXPECT_EQ(check_gids(kernel().sys).size(), 1U);
}

gpu_survey survey_of_two() {
  constexpr std::uint64_t GiB = 1U << 30U;
  return {.unavailable = {},
          .versions = "CUDA 13.0, the driver's 13.0",
          .gpus = {{.index = 0,
                    .name = "NVIDIA H200",
                    .uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef",
                    .pci_address = "0000:17:00.0",
                    .bytes = 140 * GiB,
                    .numa_node = 1,
                    .bar1_bytes = 256 * GiB,
                    .dma_buf_supported = true},
                   {.index = 1,
                    .name = "NVIDIA RTX",
                    .uuid = "GPU-99999999-89ab-cdef-0123-456789abcdef",
                    .pci_address = "0000:18:00.0",
                    .bytes = 24 * GiB,
                    .bar1_bytes = GiB / 4}}};
}

buffer_config on_gpu(const std::string& selector, std::size_t size, bool allow_staging = false) {
  buffer_config made;
  made.name = "weights";
  made.size = size;
  made.gpu = selector;
  made.allow_staging = allow_staging;
  return made;
}

TEST_F(doctor, fails_without_a_gpu_only_where_one_is_needed) {
  const gpu_survey none{.unavailable = "NVIDIA's driver is not there", .versions = {}, .gpus = {}};
  EXPECT_THAT(results_of(check_gpus(none, {})), ElementsAre(verdict::warn));
  EXPECT_THAT(results_of(check_gpus(none, {on_gpu("0", 4096)})), ElementsAre(verdict::fail));
  EXPECT_EQ(check_nvidia_driver(kernel(), false)[0].result, verdict::warn);
  EXPECT_EQ(check_nvidia_driver(kernel(), true)[0].result, verdict::fail);
  expect_remedies(check_gpus(none, {}));
  expect_remedies(check_nvidia_driver(kernel(), true));
  EXPECT_TRUE(check_bar1(none, {on_gpu("0", 4096)}).empty());
  EXPECT_TRUE(check_dma_buf(none).empty());
}

TEST_F(doctor, names_the_driver) {
  write("sys/module/nvidia/version", "580.159.04\n");
  EXPECT_EQ(check_nvidia_driver(kernel(), true)[0].what, "580.159.04");
  write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04\n");
  EXPECT_EQ(check_nvidia_driver(kernel(), true)[0].what, "580.159.04, open kernel modules");
}

TEST_F(doctor, lists_gpus_and_misses_those_that_are_not_there) {
  const auto rows = check_gpus(survey_of_two(), {on_gpu("0", 4096), on_gpu("7", 4096)});
  EXPECT_THAT(results_of(rows), ElementsAre(verdict::ok, verdict::ok, verdict::ok, verdict::fail));
  EXPECT_EQ(rows[1].what, "140 GiB, GPU-01234567-89ab-cdef-0123-456789abcdef, NUMA node 1");
  EXPECT_EQ(rows[3].subject, "buffer weights");
  EXPECT_THAT(rows[3].what, HasSubstr("there is no GPU \"7\""));
  expect_remedies(rows);
  EXPECT_THAT(results_of(check_dma_buf(survey_of_two())), ElementsAre(verdict::ok, verdict::warn));
  expect_remedies(check_dma_buf(survey_of_two()));
}

TEST_F(doctor, compares_bar1_with_the_pool_of_each_gpu) {
  const auto MiB = std::size_t{1} << 20U;
  EXPECT_THAT(results_of(check_bar1(survey_of_two(), {})), ElementsAre(verdict::ok, verdict::ok));
  const auto rows = check_bar1(survey_of_two(), {on_gpu("18:00.0", 200 * MiB), on_gpu("1", 100 * MiB), on_gpu("9", 1)});
  EXPECT_THAT(results_of(rows), ElementsAre(verdict::ok, verdict::fail));
  EXPECT_EQ(rows[1].what, "adapters reach 256 MiB at once; 300 MiB configured");
  expect_remedies(rows);
  auto unknown = survey_of_two();
  unknown.gpus[0].bar1_bytes = 0;
  EXPECT_EQ(check_bar1(unknown, {})[0].result, verdict::warn);
}

TEST_F(doctor, tells_each_devices_way_to_gpus) {
  const std::vector<adapter_survey> adapters{{.name = "mlx5_0", .mtus = {}, .registers_dma_bufs = true},
                                             {.name = "rxe0", .mtus = {}}};
  auto gpus = survey_of_two();
  gpus.gpus.pop_back();
  const auto check = [&](const std::vector<buffer_config>& buffers) {
    const auto rows = check_gpu_paths(kernel().sys, adapters, gpus, buffers);
    expect_remedies(rows);
    return results_of({rows.begin() + 1, rows.end()});  // the first is of nvidia_peermem
  };
  EXPECT_THAT(check({}), ElementsAre(verdict::ok, verdict::warn));
  EXPECT_THAT(check({on_gpu("0", 1)}), ElementsAre(verdict::ok, verdict::fail));
  EXPECT_THAT(check({on_gpu("0", 1, true)}), ElementsAre(verdict::ok, verdict::warn));
  write("sys/module/nvidia_peermem/refcnt", "0\n");
  EXPECT_THAT(check({on_gpu("0", 1)}), ElementsAre(verdict::ok, verdict::ok));
}

TEST_F(doctor, warns_of_a_small_mtu_and_of_no_address) {
  const std::vector<adapter_survey> adapters{
      {.name = "mlx5_0", .mtus = {{4096, 4096}, {1024, 4096}}, .address = rdma::endpoint::parse("192.0.2.7", 0)},
      {.name = "mlx5_1", .mtus = {}}};
  EXPECT_THAT(results_of(check_mtu(adapters)), ElementsAre(verdict::ok, verdict::warn));
  EXPECT_EQ(check_mtu(adapters)[1].subject, "mlx5_0 port 2");
  expect_remedies(check_mtu(adapters));
  EXPECT_THAT(results_of(check_addresses(adapters)), ElementsAre(verdict::ok, verdict::warn));
  EXPECT_EQ(check_addresses(adapters)[0].what, "192.0.2.7");
  EXPECT_THAT(results_of(check_addresses({adapters[1]})), ElementsAre(verdict::fail));
  expect_remedies(check_addresses(adapters));
}

TEST_F(doctor, examines_a_machine_without_rdma_and_mends_nothing) {
  const auto config = folder / "server.yaml";
  const auto found = examine({.config = config, .config_required = false, .kernel = kernel()});
  EXPECT_FALSE(found.is_stuck());
  EXPECT_EQ(worst_of(found.rows()), verdict::fail);
  EXPECT_THAT(found.rows()[0].what, HasSubstr("none"));
  expect_remedies(found.rows());
}

TEST_F(doctor, shows_every_problem_of_the_configuration) {
  write("server.yaml", "listen: [nowhere]\nbuffers: []\nfoo: 1\n");
  const auto found = examine({.config = folder / "server.yaml", .kernel = kernel()});
  const auto& rows = found.rows();
  EXPECT_GE(std::ranges::count(rows, "configuration", &finding::check), 2);
  EXPECT_EQ(rows[0].result, verdict::fail);
  EXPECT_THAT(rows[0].what, HasSubstr("server.yaml:1:"));
  const auto missing = examine({.config = folder / "other.yaml", .kernel = kernel()});
  EXPECT_THAT(missing.rows()[0].what, HasSubstr("does not exist"));
}

TEST_F(doctor, reports_a_missing_gpu_that_is_configured) {
  write("server.yaml",
        "listen: [\"0.0.0.0:7471\"]\nsecurity: { open: true }\n"
        "buffers:\n  - { name: weights, memory: cuda, gpu: \"7\", size: 4KiB, fill: R }\n");
  const auto found = examine({.config = folder / "server.yaml", .kernel = kernel()});
  EXPECT_EQ(found.rows()[0].result, verdict::ok) << found.rows()[0].what;
  const auto row = std::ranges::find(found.rows(), "buffer weights", &finding::subject);
  ASSERT_NE(row, found.rows().end());
  EXPECT_EQ(row->result, verdict::fail);
  EXPECT_THAT(row->what, HasSubstr("there is no GPU \"7\""));
}

}  // namespace
}  // namespace gpurdma::daemon::doctor
