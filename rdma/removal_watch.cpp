#include "rdma/removal_watch.hpp"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "rdma/error.hpp"

namespace gpurdma::rdma {
namespace {

/// The IP address that a GID of an Ethernet port stands for, with port 0.
std::optional<endpoint> address_of(const ibv_gid& gid) {
  const std::span<const std::uint8_t, 16> raw{gid.raw};
  constexpr std::array<std::uint8_t, 12> v4_mapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  if (std::equal(v4_mapped.begin(), v4_mapped.end(), raw.begin())) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    std::copy_n(raw.subspan(12).begin(), 4, std::bit_cast<std::uint8_t*>(&at.sin_addr));
    return endpoint{*std::bit_cast<sockaddr*>(&at), sizeof at};
  }
  const bool link_local = raw[0] == 0xFE && (raw[1] & 0xC0U) == 0x80;
  if (link_local || std::all_of(raw.begin(), raw.end(), [](auto byte) { return byte == 0; })) {
    return std::nullopt;
  }
  sockaddr_in6 at{};
  at.sin6_family = AF_INET6;
  std::copy(raw.begin(), raw.end(), std::bit_cast<std::uint8_t*>(&at.sin6_addr));
  return endpoint{*std::bit_cast<sockaddr*>(&at), sizeof at};
}

}  // namespace

removal_watch::removal_watch(cm_event_channel& channel, ibv_context& device, std::uint8_t ports,
                             std::function<void()> on_removal)
    : on_removal_{std::move(on_removal)} {
  for (std::uint8_t port = 1; port <= ports; ++port) {
    ibv_port_attr of_port{};
    if (const auto why = check_number(ibv_query_port(&device, port, &of_port))) {
      fail(why, "cannot query port " + std::to_string(port) + " of " + ibv_get_device_name(device.device));
    }
    if (of_port.link_layer != IBV_LINK_LAYER_ETHERNET) {
      continue;
    }
    for (int index = 0; index < of_port.gid_tbl_len; ++index) {
      ibv_gid gid{};
      if (ibv_query_gid(&device, port, index, &gid) != 0) {
        continue;
      }
      const auto at = address_of(gid);
      if (at && bind(channel, device, *at)) {
        return;
      }
    }
  }
}

bool removal_watch::bind(cm_event_channel& channel, ibv_context& device, const endpoint& at) {
  try {
    id_ = channel.create_id(*this);
  } catch (const std::system_error&) {
    return false;
  }
  // Port 0: one that is free. Nobody can connect, for nothing listens.
  if (rdma_bind_addr(id_.get(), at.native()) != 0 || id_->verbs != &device) {
    id_.reset();
    return false;
  }
  return true;
}

void removal_watch::on_cm_event(const cm_event& event) {
  if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL && on_removal_) {
    std::exchange(on_removal_, nullptr)();
  }
}

}  // namespace gpurdma::rdma
