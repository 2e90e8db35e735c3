#include "daemon/doctor/host_checks.hpp"

#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "memory/byte_size.hpp"

namespace gpurdma::daemon::doctor {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& what) {
  std::error_code ignored;
  return fs::exists(what, ignored);
}

bool is_empty_folder(const fs::path& folder) {
  std::error_code error;
  const fs::directory_iterator entries{folder, error};
  return error || entries == fs::directory_iterator{};
}

/// What follows the line's beginning `label`; nothing where no line begins so.
std::optional<std::string> line_of(const fs::path& file, const std::string& label) {
  std::ifstream in{file};
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with(label)) {
      return line.substr(label.size());
    }
  }
  return std::nullopt;
}

/// "Max locked memory     8388608     8388608     bytes": the first number, which rules; nothing for "unlimited".
std::optional<std::uint64_t> locked_memory_limit(const fs::path& proc) {
  std::istringstream values{line_of(proc / "self/limits", "Max locked memory").value_or("")};
  std::uint64_t limit = 0;
  return values >> limit ? std::optional{limit} : std::nullopt;
}

/// With this capability the kernel does not apply the limit (ib_umem_get).
bool may_lock_all(const fs::path& proc) {
  constexpr unsigned cap_ipc_lock = 14;
  std::istringstream value{line_of(proc / "self/status", "CapEff:").value_or("")};
  std::uint64_t effective = 0;
  return value >> std::hex >> effective && ((effective >> cap_ipc_lock) & 1U) != 0;
}

}  // namespace

std::string first_line(const fs::path& file) {
  std::ifstream in{file};
  std::string line;
  std::getline(in, line);
  return line;
}

findings check_kernel_modules(const kernel_files& in) {
  // A driver that is built into the kernel has no folder of a module, but shows its work.
  const std::array<std::pair<std::string, fs::path>, 2> needed{
      {{"ib_uverbs", in.sys / "class/infiniband_verbs"}, {"rdma_ucm", in.dev / "infiniband/rdma_cm"}}};
  findings rows;
  for (const auto& [module, sign] : needed) {
    if (is_there(in.sys / "module" / module) || is_there(sign)) {
      rows.push_back({verdict::ok, "kernel module", module, "loaded"});
    } else {
      rows.push_back({verdict::fail, "kernel module", module, "not loaded",
                      "modprobe " + module + "; to have it at boot, write its name to /etc/modules-load.d/rdma.conf"});
    }
  }
  return rows;
}

findings check_device_files(const kernel_files& in) {
  const auto folder = in.dev / "infiniband";
  std::string files;
  std::string refused;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder, error}) {
    const auto name = entry.path().filename().string();
    if (name == "rdma_cm" || name.starts_with("uverbs")) {
      auto& list = ::access(entry.path().c_str(), R_OK | W_OK) == 0 ? files : refused;
      list += (list.empty() ? "" : ", ") + name;
    }
  }
  if (!refused.empty()) {
    return {{verdict::fail, "device files", "", "this user may not open " + refused + " in " + folder.string(),
             "run as a user who may (ls -l " + folder.string() + "), or change that with a udev rule"}};
  }
  if (!is_there(folder / "rdma_cm") || files == "rdma_cm") {
    return {{verdict::fail, "device files", "",
             folder.string() + " has no " + (files == "rdma_cm" ? "uverbs file: no RDMA device is there" : "rdma_cm"),
             "load rdma_ucm and the adapter's modules; in a container pass /dev/infiniband in"}};
  }
  return {{verdict::ok, "device files", "", files + " in " + folder.string() + " can be opened"}};
}

findings check_memlock(const kernel_files& in, std::uint64_t needed) {
  const auto limit = locked_memory_limit(in.proc);
  const auto wanted = memory::format_byte_size(needed);
  if (!limit || may_lock_all(in.proc)) {
    return {{verdict::ok, "memlock", "",
             (limit ? "no limit for this user (CAP_IPC_LOCK)" : "unlimited") + std::string{"; needed are "} + wanted}};
  }
  // Each connection registers some, too; what little is left beyond the buffers does not last.
  if (*limit < needed) {
    return {{verdict::fail, "memlock", "",
             "the limit of locked memory is " + memory::format_byte_size(*limit) + "; needed are " + wanted +
                 " (host buffers x RDMA devices) and 8 KiB per connection",
             "ulimit -l unlimited; in a systemd unit LimitMEMLOCK=infinity (this row is about who runs the doctor)"}};
  }
  return {{verdict::ok, "memlock", "", memory::format_byte_size(*limit) + "; needed are " + wanted}};
}

findings check_iommu(const kernel_files& in) {
  const auto command_line = " " + first_line(in.proc / "cmdline") + " ";
  const auto says = [&](const std::string& word) { return command_line.find(" " + word + " ") != std::string::npos; };
  if (is_empty_folder(in.sys / "class/iommu")) {
    return {{verdict::ok, "IOMMU", "", "none is active"}};
  }
  if (says("iommu=pt") || says("iommu.passthrough=1")) {
    return {{verdict::ok, "IOMMU", "", "active, devices bypass it (iommu=pt)"}};
  }
  return {{verdict::warn, "IOMMU", "",
           "active and translates, which may slow down or refuse an adapter's reads of a GPU; whether it does, the "
           "loop-back rows show",
           "boot with iommu=pt; on bare metal switch off ACS on the PCIe switches (lspci -vvv: ACSCtl with '+')"}};
}

}  // namespace gpurdma::daemon::doctor
