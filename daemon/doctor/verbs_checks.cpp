#include "daemon/doctor/verbs_checks.hpp"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <map>
#include <memory>
#include <system_error>

#include "rdma/cm_event_channel.hpp"
#include "rdma/gpu_region.hpp"

namespace gpurdma::daemon::doctor {
namespace {

/// This machine's addresses, IPv4's first, but for those that work on one link or in one host only.
std::vector<rdma::endpoint> local_addresses() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) {
    throw std::system_error{errno, std::system_category(), "cannot list this machine's addresses"};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner{all, &freeifaddrs};
  std::vector<rdma::endpoint> v4;
  std::vector<rdma::endpoint> v6;
  for (const auto* next = all; next != nullptr; next = next->ifa_next) {
    if (next->ifa_addr == nullptr || (next->ifa_flags & unsigned{IFF_LOOPBACK}) != 0) {
      continue;
    }
    if (next->ifa_addr->sa_family == AF_INET) {
      v4.emplace_back(*next->ifa_addr, sizeof(sockaddr_in));
    } else if (next->ifa_addr->sa_family == AF_INET6) {
      const auto* const address = reinterpret_cast<const sockaddr_in6*>(next->ifa_addr);  // NOLINT: as the API is
      if (!IN6_IS_ADDR_LINKLOCAL(&address->sin6_addr)) {
        v6.emplace_back(*next->ifa_addr, sizeof(sockaddr_in6));
      }
    }
  }
  v4.insert(v4.end(), v6.begin(), v6.end());
  return v4;
}

/// The first address of each device, by the device's name. Binding is how rdma_cm itself finds a device.
std::map<std::string, rdma::endpoint> addresses_by_device(rdma::cm_event_channel& channel) {
  std::map<std::string, rdma::endpoint> found;
  for (const auto& address : local_addresses()) {
    try {
      const rdma::listener bound{channel, address, [](rdma::cm_id, const rdma::cm_event&) {}};
      if (bound.context() != nullptr) {
        found.emplace(ibv_get_device_name(bound.context()->device), address);
      }
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): the address of another kind of device
    }
  }
  return found;
}

adapter_survey survey(boost::asio::io_context& io, ibv_context& context) {
  rdma::device device{io, context, [](const ibv_async_event&) {}};
  adapter_survey made{.name = device.name(), .mtus = {}};
  for (std::uint8_t port = 1; port <= device.limits().ports; ++port) {
    made.mtus.push_back(device.mtu(port));
  }
  const auto domain = device.allocate_protection_domain();
  made.registers_dma_bufs = rdma::registers_dma_bufs(*domain);
  return made;
}

/// Every buffer on a GPU may be staged.
bool all_may_be_staged(const std::vector<buffer_config>& buffers) {
  return std::ranges::all_of(buffers, [](const auto& b) { return !b.gpu || b.allow_staging; });
}

}  // namespace

std::vector<adapter_survey> survey_adapters() {
  boost::asio::io_context io{1};
  rdma::cm_event_channel channel{io};
  const auto addresses = addresses_by_device(channel);
  const std::unique_ptr<ibv_context*, decltype(&rdma_free_devices)> contexts{rdma_get_devices(nullptr),
                                                                             &rdma_free_devices};
  std::vector<adapter_survey> all;
  for (ibv_context** next = contexts.get(); next != nullptr && *next != nullptr; ++next) {
    auto made = survey(io, **next);
    if (const auto found = addresses.find(made.name); found != addresses.end()) {
      made.address = found->second;
    }
    all.push_back(std::move(made));
  }
  return all;
}

findings check_mtu(const std::vector<adapter_survey>& adapters) {
  findings rows;
  for (const auto& adapter : adapters) {
    for (std::size_t i = 0; i < adapter.mtus.size(); ++i) {
      const auto& mtu = adapter.mtus[i];
      const auto label = adapter.name + " port " + std::to_string(i + 1);
      const auto active = std::to_string(mtu.active) + " bytes";
      if (mtu.active < mtu.most) {
        rows.push_back({verdict::warn, "MTU", label, active + " of " + std::to_string(mtu.most) + " possible",
                        "larger packets are faster: ip link set DEV mtu 4200 or more, here, on the switch and on the "
                        "readers"});
      } else {
        rows.push_back({verdict::ok, "MTU", label, active});
      }
    }
  }
  return rows;
}

findings check_addresses(const std::vector<adapter_survey>& adapters) {
  const bool some = std::ranges::any_of(adapters, [](const auto& a) { return a.address.has_value(); });
  findings rows;
  for (const auto& adapter : adapters) {
    if (adapter.address) {
      auto text = adapter.address->to_string();
      rows.push_back({verdict::ok, "address", adapter.name, text.substr(0, text.rfind(':'))});
    } else {
      rows.push_back({some ? verdict::warn : verdict::fail, "address", adapter.name,
                      "no IP address of this machine belongs to it: nobody can connect over it",
                      "give its interface one: ip address add ADDRESS dev DEV (of InfiniBand the IPoIB interface)"});
    }
  }
  return rows;
}

findings check_gpu_paths(const std::filesystem::path& sys, const std::vector<adapter_survey>& adapters,
                         const gpu_survey& gpus, const std::vector<buffer_config>& buffers) {
  std::error_code ignored;
  const bool peermem = std::filesystem::exists(sys / "module/nvidia_peermem", ignored);
  const bool exported = std::ranges::all_of(gpus.gpus, &memory::gpu_info::dma_buf_supported);
  findings rows{{verdict::ok, "nvidia_peermem", "",
                 peermem ? "loaded" : "not loaded, which is right where the ways below are dma-buf"}};
  for (const auto& adapter : adapters) {
    const std::string why = adapter.registers_dma_bufs ? "not every GPU exports dma-bufs" : "it registers no dma-bufs";
    if (adapter.registers_dma_bufs && exported) {
      rows.push_back({verdict::ok, "way to GPUs", adapter.name, "dma-buf"});
    } else if (peermem) {
      rows.push_back({verdict::ok, "way to GPUs", adapter.name, "nvidia_peermem, for " + why});
    } else {
      const bool needed = needs_gpu(buffers) && !all_may_be_staged(buffers);
      rows.push_back({needed ? verdict::fail : verdict::warn, "way to GPUs", adapter.name,
                      "none: " + why + ", and nvidia_peermem is not loaded",
                      "modprobe nvidia_peermem; or Linux 5.12 or later and an adapter driver with dma-bufs (mlx5); or "
                      "allow_staging: true for a copy in host memory"});
    }
  }
  return rows;
}

}  // namespace gpurdma::daemon::doctor
