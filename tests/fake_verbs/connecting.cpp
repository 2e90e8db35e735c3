// How two ids come together and part, and what each is told.

#include <algorithm>
#include <cstring>
#include <tuple>

#include "objects.hpp"

namespace gpurdma::fake_verbs {
namespace {

// Reasons of REJ (IBA, volume 1, table 107).
constexpr int timed_out = 4;
constexpr int consumer_defined = 28;

/// What the CM gives a queue pair, as measured.
constexpr unsigned default_access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

}  // namespace

void join(queue_pair& q, const queue_pair& peer) {
  q.state = IBV_QPS_RTS;
  q.access = default_access;
  q.remote = peer.qp_num;
}

void state::leave(connection_id& id) {
  if (id.left || id.peer == nullptr) {
    return;
  }
  id.left = true;
  auto& peer = *id.peer;
  if (id.where == id_state::requested) {
    tell(peer, RDMA_CM_EVENT_REJECTED, consumer_defined);
    peer.where = id_state::over;
  } else if (id.where == id_state::requesting) {
    tell(peer, RDMA_CM_EVENT_REJECTED, timed_out);
    peer.where = id_state::over;
  } else if (id.where == id_state::accepted || id.where == id_state::connected) {
    tell(peer, RDMA_CM_EVENT_DISCONNECTED);
    if (peer.left) {
      tell(peer, RDMA_CM_EVENT_TIMEWAIT_EXIT);
      tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    }
  }
}

void state::remove_id(connection_id& id) {
  leave(id);
  if (id.peer != nullptr) {
    id.peer->peer = nullptr;
  }
  forget_events(id);
  if (id.pair != nullptr) {
    violation("a connection id is destroyed before its queue pair");
    id.pair->id = nullptr;
  }
  ids.remove(id);
}

void state::forget_events(connection_id& id) {
  auto* const channel = event_channels.find(id.channel);
  std::vector<connection_id*> unborn;
  const auto concerns = [&](const auto& e) {
    if (e->listen_id == &id) {
      unborn.push_back(ids.find(e->id));
      return true;
    }
    return e->id == &id;
  };
  for (auto gone = std::erase_if(channel->queue, concerns); gone != 0; --gone) {
    std::ignore = channel->ready.take();
  }
  std::erase_if(withheld, concerns);
  for (auto* const child : unborn) {
    remove_id(*child);
  }
}

void state::finish_connecting(connection_id& id, cm_event& event) {
  if (id.qp != nullptr && pairs.find(id.qp) == nullptr) {
    violation("rdma_get_cm_event would use a queue pair that is gone");
  }
  if (id.pair == nullptr || id.pair->state == IBV_QPS_ERR || id.peer == nullptr || id.peer->pair == nullptr) {
    event.event = RDMA_CM_EVENT_CONNECT_ERROR;
    leave(id);
    return;
  }
  join(*id.pair, *id.peer->pair);
  id.where = id_state::connected;
  if (id.peer->where == id_state::accepted) {
    id.peer->where = id_state::connected;
    tell(*id.peer, RDMA_CM_EVENT_ESTABLISHED);
  }
  progress(*id.pair);
  progress_of_peer(*id.pair);
}

void state::queue_event(std::unique_ptr<cm_event> event) {
  const auto& id = *ids.find(event->listen_id != nullptr ? event->listen_id : event->id);
  const auto& kept = plan_of(id.at).withheld;
  if (std::find(kept.begin(), kept.end(), event->event) != kept.end()) {
    withheld.push_back(std::move(event));
    return;
  }
  auto& channel = *event_channels.find(id.channel);
  channel.queue.push_back(std::move(event));
  channel.ready.add();
}

void state::tell(connection_id& id, rdma_cm_event_type type, int status) { tell(id, type, status, {}, 0); }

void state::tell(connection_id& id, rdma_cm_event_type type, int status, const rdma_conn_param& param,
                 std::size_t room) {
  auto event = std::make_unique<cm_event>();
  event->id = &id;
  event->listen_id = type == RDMA_CM_EVENT_CONNECT_REQUEST ? id.listener : nullptr;
  event->event = type;
  event->status = status;
  event->data.resize(room);
  if (param.private_data != nullptr) {
    std::memcpy(event->data.data(), param.private_data, std::min<std::size_t>(param.private_data_len, room));
  }
  auto& conn = event->param.conn;
  conn.private_data = room == 0 ? nullptr : event->data.data();
  conn.private_data_len = static_cast<std::uint8_t>(room);
  conn.responder_resources = param.initiator_depth;
  conn.initiator_depth = param.responder_resources;
  queue_event(std::move(event));
}

}  // namespace gpurdma::fake_verbs
