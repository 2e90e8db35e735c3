#include "rdma/cm_event_channel.hpp"

#include <algorithm>

#include "rdma/error.hpp"

namespace gpurdma::rdma {
namespace {

cm_event copy(const rdma_cm_event& from) {
  cm_event event;
  event.type = from.event;
  event.status = from.status;
  event.id = from.id;
  // `param.conn` is what the union holds for a connection-oriented port space, whatever the event.
  const auto& conn = from.param.conn;
  event.responder_resources = conn.responder_resources;
  event.initiator_depth = conn.initiator_depth;
  if (conn.private_data != nullptr) {
    event.private_data_size = std::min<std::size_t>(conn.private_data_len, event.private_data_bytes.size());
    std::copy_n(static_cast<const std::byte*>(conn.private_data), event.private_data_size,
                event.private_data_bytes.begin());
  }
  return event;
}

}  // namespace

cm_event_channel::cm_event_channel(boost::asio::io_context& io) : channel_{rdma_create_event_channel()} {
  if (!channel_) {
    const auto why = last_error();
    fail(why, why.value() == ENODEV ? "this machine has no RDMA device (or its kernel modules are not loaded: see "
                                      "`rdma link` and `ibv_devices`)"
                                    : "cannot create an rdma_cm event channel");
  }
  set_non_blocking(channel_->fd);
  watch_ = std::make_unique<fd_watch>(io, channel_->fd, [this] { drain(); });
}

cm_event_channel::~cm_event_channel() = default;

cm_id cm_event_channel::create_id(cm_event_handler& handler) {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, &handler, RDMA_PS_TCP) != 0) {
    fail(last_error(), "cannot create a connection id");
  }
  return cm_id{id};
}

void cm_event_channel::set_handler(rdma_cm_id& id, cm_event_handler& handler) noexcept { id.context = &handler; }

void cm_event_channel::close() {
  if (watch_) {
    watch_->stop();
  }
}

void cm_event_channel::drain() {
  // A budget, so that a storm of connection requests does not keep completions waiting; what is left makes the
  // descriptor readable again.
  constexpr int budget = 32;
  for (int i = 0; i < budget; ++i) {
    rdma_cm_event* raw = nullptr;
    if (rdma_get_cm_event(channel_.get(), &raw) != 0) {
      return;  // EAGAIN; anything else shows again when the channel is next used
    }
    const auto event = copy(*raw);
    // A new id inherits its listener's context, so this is the right handler for a request to connect as well. Taken
    // before the event is acknowledged: then a thread that destroys the id may go on. The handler itself goes on this
    // thread, and later.
    auto* const handler = static_cast<cm_event_handler*>(event.id->context);
    rdma_ack_cm_event(raw);
    handler->on_cm_event(event);
  }
}

}  // namespace gpurdma::rdma
