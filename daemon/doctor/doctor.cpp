#include "daemon/doctor/doctor.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include "daemon/config.hpp"
#include "daemon/doctor/adapter_checks.hpp"
#include "daemon/doctor/gpu_checks.hpp"
#include "daemon/doctor/loopback.hpp"
#include "daemon/doctor/verbs_checks.hpp"
#include "memory/byte_size.hpp"
#include "rdma/gpu_region.hpp"

namespace gpurdma::daemon::doctor {
namespace {

using namespace std::chrono_literals;

// Files answer at once, or are on a server that does not answer. A driver that starts eight GPUs takes its time.
constexpr auto file_limit = 10s;
constexpr auto driver_limit = 60s;
// Of the connection and the READs; loading, registering and closing come on top.
constexpr auto read_limit = 20s;
constexpr auto loopback_limit = 90s;

constexpr std::size_t loopback_size = std::size_t{16} << 20U;

/// What the configuration asks for, or nothing; and rows on how it was read.
struct wishes {
  std::vector<buffer_config> buffers;
  findings rows;
};

wishes read_config(const std::filesystem::path& file, bool required) {
  std::error_code ignored;
  if (!required && !std::filesystem::exists(file, ignored)) {
    return {.buffers = {},
            .rows = {{verdict::ok, "configuration", "", "none (no " + file.string() + "): host memory and every GPU"}}};
  }
  try {
    auto settings = load_config(file, missing_gpu::allowed);
    const auto count = std::to_string(settings.buffers.size());
    return {.buffers = std::move(settings.buffers),
            .rows = {{verdict::ok, "configuration", "", file.string() + ": buffers: " + count}}};
  } catch (const config_error& e) {
    findings rows;
    std::istringstream problems{e.what()};
    for (std::string problem; std::getline(problems, problem);) {
      rows.push_back({verdict::fail, "configuration", "", problem, "correct it; --check-config shows the rest"});
    }
    return {.buffers = {}, .rows = std::move(rows)};
  }
}

std::uint64_t host_bytes(const std::vector<buffer_config>& buffers) {
  std::uint64_t all = 0;
  for (const auto& buffer : buffers) {
    all += buffer.gpu ? 0 : buffer.size;
  }
  return all;
}

/// One small buffer for each kind of memory: the host's always, for it shows the network without a GPU; each GPU that
/// is configured, staged where all its buffers may be; without a configuration each GPU there is.
std::vector<std::pair<std::string, buffer_config>> kinds_of_memory(const std::vector<buffer_config>& buffers,
                                                                   const gpu_survey& found) {
  std::map<int, bool> may_be_staged;
  for (const auto& buffer : buffers) {
    if (const auto index = gpu_of(buffer, found)) {
      const auto entry = may_be_staged.emplace(*index, true).first;
      entry->second = entry->second && buffer.allow_staging;
    }
  }
  if (buffers.empty()) {
    for (const auto& gpu : found.gpus) {
      may_be_staged.emplace(gpu.index, false);
    }
  }
  buffer_config wanted;
  wanted.name = "loop-back";
  wanted.size = loopback_size;
  wanted.source = memory::counting_fill{};
  std::vector<std::pair<std::string, buffer_config>> kinds{{"host memory", wanted}};
  for (const auto& [index, staged] : may_be_staged) {
    wanted.gpu = std::to_string(index);
    wanted.allow_staging = staged;
    kinds.emplace_back("GPU " + *wanted.gpu, wanted);
  }
  return kinds;
}

std::string describe(const loopback_read& read) {
  const auto& m = read.measured;
  std::array<char, 100> text{};
  std::snprintf(text.data(), text.size(), " read, data %s (CRC32C %08x), %.2f GB/s, by ", read.right ? "OK" : "WRONG",
                m.crc32c, static_cast<double>(m.bytes) / m.seconds / 1e9);
  return memory::format_byte_size(m.bytes) + text.data() + m.path;
}

findings check_loopback(const std::string& subject, const rdma::endpoint& at, const buffer_config& what) {
  finding row{verdict::fail, "loop-back READ", subject, ""};
  try {
    const auto read = read_over_loopback(at, what, read_limit);
    row.what = describe(read);
    row.measured = read.measured;
    if (!read.right) {
      row.what += ": what arrived has other checksums than what was served";
      row.remedy = "do not serve over this device: suspect the adapter, its driver, or the PCIe path to the memory";
    } else if (read.measured.path == "staged") {
      row.result = verdict::warn;
      row.what += " (a copy in host memory, as the configuration allows): " + read.why;
      row.remedy = "modprobe nvidia_peermem, or what the row 'way to GPUs' says, to serve the GPU's own memory";
    } else {
      row.result = verdict::ok;
    }
  } catch (const std::exception& e) {
    row.what = e.what();
    row.remedy = what.gpu
                     ? "see the rows 'way to GPUs', 'BAR1' and 'IOMMU', and dmesg"
                     : "see the rows 'port', 'GID', 'address' and 'memlock', firewall rules for UDP 4791, and dmesg";
  }
  return {row};
}

void check_gpu_things(checklist& list, const kernel_files& kernel, const wishes& wanted,
                      const std::optional<gpu_survey>& found) {
  // Where CUDA lists GPUs there is a driver, whether or not this machine shows its module (a container may not).
  const bool needed = needs_gpu(wanted.buffers) && !(found && !found->gpus.empty());
  list.run("NVIDIA driver", file_limit, [=] { return check_nvidia_driver(kernel, needed); });
  if (!found) {
    return;
  }
  list.run("GPU", file_limit, [=] { return check_gpus(*found, wanted.buffers); });
  list.run("dma-buf export", file_limit, [=] { return check_dma_buf(*found); });
  list.run("BAR1", file_limit, [=] { return check_bar1(*found, wanted.buffers); });
  if (!found->gpus.empty()) {
    list.run("IOMMU", file_limit, [kernel] { return check_iommu(kernel); });
  }
}

void check_adapters(checklist& list, const kernel_files& kernel, const wishes& wanted, std::size_t devices) {
  list.run("kernel module", file_limit, [kernel] { return check_kernel_modules(kernel); });
  list.run("device files", file_limit, [kernel] { return check_device_files(kernel); });
  list.run("RDMA device", file_limit, [kernel] { return check_rdma_devices(kernel.sys); });
  list.run("port", file_limit, [kernel] { return check_ports(kernel.sys); });
  list.run("GID", file_limit, [kernel] { return check_gids(kernel.sys); });
  const auto pinned = std::max<std::uint64_t>(host_bytes(wanted.buffers) * devices, 2 * loopback_size);
  list.run("memlock", file_limit, [kernel, pinned] { return check_memlock(kernel, pinned); });
}

void check_verbs(checklist& list, const kernel_files& kernel, const wishes& wanted,
                 const std::optional<gpu_survey>& found) {
  const auto adapters =
      list.find_out<std::vector<adapter_survey>>("RDMA device", driver_limit, [] { return survey_adapters(); });
  if (!adapters) {
    return;
  }
  list.run("MTU", file_limit, [=] { return check_mtu(*adapters); });
  list.run("address", file_limit, [=] { return check_addresses(*adapters); });
  const auto gpus = found.value_or(gpu_survey{});
  if (!gpus.gpus.empty()) {
    list.run("way to GPUs", file_limit, [=] { return check_gpu_paths(kernel.sys, *adapters, gpus, wanted.buffers); });
    list.run("topology", file_limit, [=] { return check_topology(kernel.sys, gpus, rdma_device_names(kernel.sys)); });
  }
  for (const auto& adapter : *adapters) {
    for (const auto& [kind, what] : kinds_of_memory(wanted.buffers, gpus)) {
      if (adapter.address) {
        list.run("loop-back READ", loopback_limit,
                 [subject = adapter.name + ", " + kind, at = *adapter.address, wanted_buffer = what] {
                   return check_loopback(subject, at, wanted_buffer);
                 });
      }
    }
  }
}

}  // namespace

checklist examine(const options& o) {
  checklist list;
  auto wanted =
      list.find_out<wishes>("configuration", file_limit, [o] { return read_config(o.config, o.config_required); })
          .value_or(wishes{});
  for (auto& row : wanted.rows) {
    list.add(std::move(row));
  }
  const auto devices = rdma_device_names(o.kernel.sys).size();
  check_adapters(list, o.kernel, wanted, devices);
  const auto gpus = list.find_out<gpu_survey>("CUDA", driver_limit, [] { return survey_gpus(); });
  check_gpu_things(list, o.kernel, wanted, gpus);
  if (devices != 0) {
    check_verbs(list, o.kernel, wanted, gpus);
  }
  return list;
}

}  // namespace gpurdma::daemon::doctor
