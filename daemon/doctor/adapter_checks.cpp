#include "daemon/doctor/adapter_checks.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <optional>
#include <system_error>

#include "daemon/doctor/host_checks.hpp"

namespace gpurdma::daemon::doctor {
namespace {

namespace fs = std::filesystem;

constexpr auto bring_up = "ip link set DEV up of its interface; see rdma link, the cable and the switch";

std::vector<std::string> entries_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator{folder, error}) {
    names.push_back(entry.path().filename());
  }
  // By number where they are numbers.
  std::ranges::sort(names, [](const auto& a, const auto& b) {
    return std::pair{a.size(), a} < std::pair{b.size(), b};
  });
  return names;
}

struct port {
  std::string label;  ///< "mlx5_0 port 1"
  fs::path folder;
  std::string state;  ///< "ACTIVE"
  std::string link_layer;
};

std::vector<port> ports_of(const fs::path& sys) {
  std::vector<port> ports;
  for (const auto& device : rdma_device_names(sys)) {
    for (const auto& number : entries_of(sys / "class/infiniband" / device / "ports")) {
      const auto folder = sys / "class/infiniband" / device / "ports" / number;
      // "4: ACTIVE"
      const auto state = first_line(folder / "state");
      ports.push_back({.label = device + " port " + number,
                       .folder = folder,
                       .state = state.substr(std::min(state.size(), state.find(' ') + 1)),
                       .link_layer = first_line(folder / "link_layer")});
    }
  }
  return ports;
}

bool is_active(const port& p) { return p.state == "ACTIVE"; }

/// The IP address that a GID stands for: "::ffff:192.0.2.1" is IPv4; nothing for a link-local or unset one.
std::optional<std::string> address_of(const std::string& gid) {
  in6_addr address{};
  if (inet_pton(AF_INET6, gid.c_str(), &address) != 1 || IN6_IS_ADDR_UNSPECIFIED(&address) ||
      IN6_IS_ADDR_LINKLOCAL(&address)) {
    return std::nullopt;
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  constexpr std::size_t v4_offset = 12;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    inet_ntop(AF_INET, &address.s6_addr[v4_offset], text.data(), text.size());
  } else {
    inet_ntop(AF_INET6, &address, text.data(), text.size());
  }
  return text.data();
}

/// "3: 192.0.2.1, 5: 2001:db8::1"
std::string usable_gids(const port& p) {
  std::string found;
  for (const auto& index : entries_of(p.folder / "gids")) {
    // Reading the type of an unused entry fails, which gives an empty line.
    const auto type = first_line(p.folder / "gid_attrs/types" / index);
    const auto address = address_of(first_line(p.folder / "gids" / index));
    if (type == "RoCE v2" && address) {
      found += (found.empty() ? "" : ", ") + index + ": " + *address;
    }
  }
  return found;
}

}  // namespace

std::vector<std::string> rdma_device_names(const fs::path& sys) { return entries_of(sys / "class/infiniband"); }

findings check_rdma_devices(const fs::path& sys) {
  findings rows;
  for (const auto& name : rdma_device_names(sys)) {
    const auto firmware = first_line(sys / "class/infiniband" / name / "fw_ver");
    rows.push_back({verdict::ok, "RDMA device", name, firmware.empty() ? "there" : "firmware " + firmware});
  }
  if (rows.empty()) {
    rows.push_back({verdict::fail, "RDMA device", "", "this machine has none",
                    "load the adapter's modules (mlx5_ib, bnxt_re, ...; see lspci and dmesg); in a container pass "
                    "/dev/infiniband in; without an adapter: modprobe -a crc32_generic rdma_rxe && rdma link add rxe0 "
                    "type rxe netdev DEV"});
  }
  return rows;
}

findings check_ports(const fs::path& sys) {
  const auto ports = ports_of(sys);
  const bool some_active = std::ranges::any_of(ports, is_active);
  findings rows;
  for (const auto& p : ports) {
    const auto seen = (p.state.empty() ? "state unknown" : p.state) + ", " +
                      (p.link_layer.empty() ? "link layer unknown" : p.link_layer);
    if (is_active(p)) {
      rows.push_back({verdict::ok, "port", p.label, seen + ", " + first_line(p.folder / "rate")});
    } else {
      rows.push_back(
          {some_active ? verdict::warn : verdict::fail, "port", p.label, seen,
           p.link_layer == "InfiniBand" && p.state == "INIT" ? "start a subnet manager (opensm)" : bring_up});
    }
  }
  return rows;
}

findings check_gids(const fs::path& sys) {
  const auto ports = ports_of(sys);
  const bool some_usable =
      std::ranges::any_of(ports, [](const port& p) { return p.link_layer != "Ethernet" || !usable_gids(p).empty(); });
  findings rows;
  for (const auto& p : ports) {
    if (p.link_layer != "Ethernet") {
      continue;  // InfiniBand's are made from the subnet
    }
    const auto gids = usable_gids(p);
    if (!gids.empty()) {
      rows.push_back({verdict::ok, "GID", p.label, "RoCE v2 with an IP address: " + gids});
    } else {
      rows.push_back({some_usable ? verdict::warn : verdict::fail, "GID", p.label,
                      "none of RoCE v2 with an IP address: nobody can connect over this port",
                      "give the port's interface an address (ip address add ADDRESS dev DEV) and set it up"});
    }
  }
  return rows;
}

}  // namespace gpurdma::daemon::doctor
