#include "rdma/device.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rdma/error.hpp"

namespace gpurdma::rdma {
namespace {

device_limits query_limits(ibv_context& context) {
  ibv_device_attr attributes{};
  if (const auto why = check_number(ibv_query_device(&context, &attributes))) {
    fail(why, std::string{"cannot query "} + ibv_get_device_name(context.device));
  }
  // Negative or absurd figures of a broken provider must not wrap.
  const auto at_most = [](int value, int most) { return std::clamp(value, 0, most); };
  return {
      .completion_queue_entries = static_cast<std::uint32_t>(std::max(attributes.max_cqe, 0)),
      .work_requests = static_cast<std::uint32_t>(std::max(attributes.max_qp_wr, 0)),
      .reads_in = static_cast<std::uint8_t>(at_most(attributes.max_qp_rd_atom, 255)),
      .reads_out = static_cast<std::uint8_t>(at_most(attributes.max_qp_init_rd_atom, 255)),
      .ports = attributes.phys_port_cnt,
  };
}

ibv_port_attr query_port(ibv_context& context, std::uint8_t port) {
  ibv_port_attr attributes{};
  if (const auto why = check_number(ibv_query_port(&context, port, &attributes))) {
    fail(why, "cannot query port " + std::to_string(port) + " of " + ibv_get_device_name(context.device));
  }
  return attributes;
}

}  // namespace

device::device(boost::asio::io_context& io, ibv_context& context, async_event_handler on_async_event)
    : context_{&context}, limits_{query_limits(context)}, on_async_event_{std::move(on_async_event)} {
  completions_ = std::make_unique<completion_queues>(io, context, limits_.completion_queue_entries);
  set_non_blocking(context.async_fd);
  async_watch_ = std::make_unique<fd_watch>(io, context.async_fd, [this] { drain_async_events(); });
}

device::~device() = default;

void device::close() {
  completions_->close();
  async_watch_->stop();
}

std::size_t device::max_message_size(std::uint8_t port) const { return query_port(*context_, port).max_msg_sz; }

port_mtu device::mtu(std::uint8_t port) const {
  // ibv_mtu counts powers of two from 256 bytes, which is 1.
  const auto bytes = [](ibv_mtu value) { return 128U << static_cast<unsigned>(value); };
  const auto attributes = query_port(*context_, port);
  return {.active = bytes(attributes.active_mtu), .most = bytes(attributes.max_mtu)};
}

protection_domain device::allocate_protection_domain() {
  protection_domain domain{ibv_alloc_pd(context_)};
  if (!domain) {
    fail(last_error(), "cannot allocate a protection domain on " + name());
  }
  return domain;
}

completion_reservation device::reserve_completions(std::uint32_t entries, work_owner& owner) {
  return completions_->reserve(entries, owner);
}

void device::drain_async_events() {
  ibv_async_event event{};
  while (ibv_get_async_event(context_, &event) == 0) {
    // Acknowledged before it is told: destroying the queue pair or queue of an event waits for that.
    ibv_ack_async_event(&event);
    on_async_event_(event);
  }
  if (errno == EIO) {
    // The device is gone: its descriptor would be readable for ever.
    async_watch_->stop();
  }
}

}  // namespace gpurdma::rdma
