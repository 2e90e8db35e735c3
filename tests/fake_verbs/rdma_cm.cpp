// librdmacm: ids, their events, and connecting.

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "objects.hpp"

namespace {

using namespace gpurdma::fake_verbs;

// Bytes that the CM has for private data, as measured for RDMA_PS_TCP.
constexpr std::size_t request_room = 56;
constexpr std::size_t reply_room = 196;
constexpr std::size_t reject_room = 148;

// Reasons of REJ (IBA, volume 1, table 107).
constexpr int invalid_service_id = 8;
constexpr int consumer_defined = 28;

struct address {
  sa_family_t family = AF_UNSPEC;
  std::string host;  ///< empty for a wildcard
  std::uint16_t port = 0;
};

address parse(const sockaddr* from) {
  if (from->sa_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, from, sizeof v6);
    const bool any = std::memcmp(&v6.sin6_addr, &in6addr_any, sizeof in6addr_any) == 0;
    return {.family = AF_INET6, .host = any ? "" : "another", .port = ntohs(v6.sin6_port)};
  }
  sockaddr_in v4{};
  std::memcpy(&v4, from, sizeof v4);
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
  return {.family = AF_INET, .host = v4.sin_addr.s_addr == INADDR_ANY ? "" : text.data(), .port = ntohs(v4.sin_port)};
}

sockaddr_in client_socket(std::uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  inet_pton(AF_INET, client_address, &made.sin_addr);
  return made;
}

std::size_t size_of(const sockaddr* of) {
  return of->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

connection_id* listener_at(const state& world, const sockaddr* at) {
  const auto wanted = parse(at);
  return world.ids.find_if([&](const auto& id) {
    const auto its = parse(&id.route.addr.src_addr);
    return id.where == id_state::listening && its.family == wanted.family && its.port == wanted.port &&
           (its.host.empty() || its.host == wanted.host);
  });
}

}  // namespace

rdma_event_channel* rdma_create_event_channel() {
  const guard w;
  if (const int error = w->fault(call::rdma_create_event_channel, w->acting)) {
    return null(error);
  }
  auto& made = w->event_channels.add();
  made.at = w->acting;
  made.fd = made.ready.get();
  return &made;
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  const guard w;
  auto* const found = w->event_channels.find(channel);
  if (found == nullptr || w->ids.find_if([&](const auto& id) { return id.channel == channel; }) != nullptr) {
    w->violation("an event channel is destroyed that is not there, or still has an id");
    return;
  }
  w->event_channels.remove(*found);
}

ibv_context** rdma_get_devices(int* count) {
  const guard w;
  if (const int error = w->fault(call::rdma_get_devices, w->acting)) {
    return null(error);
  }
  if (count != nullptr) {
    *count = 1;
  }
  ++w->device_lists;
  return new ibv_context* [2] { &w->device_of(w->acting).context, nullptr };
}

void rdma_free_devices(ibv_context** list) {
  const guard w;
  --w->device_lists;
  delete[] list;
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context, rdma_port_space ps) {
  const guard w;
  const auto at = w->event_channels.find(channel)->at;
  if (const int error = w->fault(call::rdma_create_id, at)) {
    return minus_one(error);
  }
  auto& made = w->ids.add();
  made.channel = channel;
  made.context = context;
  made.ps = ps;
  made.at = at;
  *id = &made;
  return 0;
}

int rdma_destroy_id(rdma_cm_id* id) {
  guard w;
  auto* const found = w->ids.find(id);
  if (found == nullptr) {
    w->violation("a connection id is destroyed that is not there");
    return minus_one(EINVAL);
  }
  // As the library does. Who waits here for itself would wait for ever.
  constexpr std::chrono::seconds for_ever{2};
  if (!w->changed.wait_for(w.lock(), for_ever, [&] { return found->unacknowledged == 0; })) {
    w->violation("rdma_destroy_id would wait for ever: an event of the id is not acknowledged");
  }
  w->remove_id(*found);
  return 0;
}

int rdma_set_option(rdma_cm_id* id, int, int, void*, std::size_t) {
  const guard w;
  const int error = w->fault(call::rdma_set_option, w->ids.find(id)->at);
  return error == 0 ? 0 : minus_one(error);
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr* at) {
  const guard w;
  auto& found = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_bind_addr, found.at)) {
    return minus_one(error);
  }
  const auto wanted = parse(at);
  if (!wanted.host.empty()) {
    if (wanted.host != (found.at == host::server ? server_address : client_address)) {
      return minus_one(ENODEV);
    }
    id->verbs = &w->device_of(found.at).context;
    id->port_num = 1;
  }
  std::memcpy(&id->route.addr.src_storage, at, size_of(at));
  found.where = id_state::bound;
  return 0;
}

int rdma_listen(rdma_cm_id* id, int) {
  const guard w;
  auto& found = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_listen, found.at)) {
    return minus_one(error);
  }
  if (listener_at(*w, &id->route.addr.src_addr) != nullptr) {
    return minus_one(EADDRINUSE);
  }
  found.where = id_state::listening;
  return 0;
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr*, sockaddr* to, int) {
  const guard w;
  auto& found = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_resolve_addr, found.at)) {
    return minus_one(error);
  }
  const auto wanted = parse(to);
  std::memcpy(&id->route.addr.dst_storage, to, size_of(to));
  if (wanted.host != server_address && wanted.host != client_address) {
    w->tell(found, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    return 0;
  }
  id->verbs = &w->device_of(found.at).context;
  id->port_num = 1;
  found.where = id_state::resolved;
  w->tell(found, RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}

int rdma_resolve_route(rdma_cm_id* id, int) {
  const guard w;
  auto& found = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_resolve_route, found.at)) {
    return minus_one(error);
  }
  found.where = id_state::routed;
  w->tell(found, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* wanted) {
  const guard w;
  auto& of = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_create_qp, of.at)) {
    return minus_one(error);
  }
  const auto most = static_cast<std::uint32_t>(w->device_of(of.at).bounds.work_requests);
  if (id->verbs != pd->context || wanted->cap.max_send_wr > most || wanted->cap.max_recv_wr > most ||
      w->queues.find(wanted->send_cq) == nullptr || w->queues.find(wanted->recv_cq) == nullptr) {
    return minus_one(EINVAL);
  }
  auto& made = w->pairs.add();
  made.context = pd->context;
  made.pd = pd;
  made.send_cq = wanted->send_cq;
  made.recv_cq = wanted->recv_cq;
  made.qp_num = ++w->last_number;
  made.state = IBV_QPS_INIT;
  made.at = of.at;
  made.id = &of;
  made.bounds = wanted->cap;
  of.pair = &made;
  id->qp = &made;
  return 0;
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param* param) {
  const guard w;
  auto& active = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_connect, active.at)) {
    return minus_one(error);
  }
  if (active.where != id_state::routed || param->private_data_len > request_room) {
    return minus_one(EINVAL);
  }
  active.where = id_state::requesting;
  auto* const listener = listener_at(*w, &id->route.addr.dst_addr);
  if (listener == nullptr) {
    w->tell(active, RDMA_CM_EVENT_REJECTED, invalid_service_id);
    return 0;
  }
  auto& passive = w->ids.add();
  passive.channel = listener->channel;
  passive.context = listener->context;
  passive.ps = listener->ps;
  passive.at = listener->at;
  passive.verbs = &w->device_of(listener->at).context;
  passive.port_num = 1;
  constexpr std::uint32_t first_port = 40'000;
  const auto from = client_socket(static_cast<std::uint16_t>(first_port + ++w->last_number));
  std::memcpy(&passive.route.addr.dst_storage, &from, sizeof from);
  passive.where = id_state::requested;
  passive.listener = listener;
  passive.known = false;
  passive.peer = &active;
  active.peer = &passive;
  w->tell(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0, *param, request_room);
  return 0;
}

int rdma_accept(rdma_cm_id* id, rdma_conn_param* param) {
  const guard w;
  auto& passive = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_accept, passive.at)) {
    return minus_one(error);
  }
  if (passive.where != id_state::requested || passive.peer == nullptr || passive.peer->pair == nullptr ||
      passive.pair == nullptr || param->private_data_len > reply_room) {
    return minus_one(EINVAL);
  }
  passive.where = id_state::accepted;
  join(*passive.pair, *passive.peer->pair);
  w->tell(*passive.peer, RDMA_CM_EVENT_ESTABLISHED, 0, *param, reply_room);
  return 0;
}

int rdma_reject(rdma_cm_id* id, const void* data, std::uint8_t size) {
  const guard w;
  auto& passive = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_reject, passive.at)) {
    return minus_one(error);
  }
  if (passive.where != id_state::requested || passive.peer == nullptr || size > reject_room) {
    return minus_one(EINVAL);
  }
  rdma_conn_param param{};
  param.private_data = data;
  param.private_data_len = size;
  passive.where = id_state::over;
  passive.peer->where = id_state::over;
  w->tell(*passive.peer, RDMA_CM_EVENT_REJECTED, consumer_defined, param, reject_room);
  return 0;
}

int rdma_disconnect(rdma_cm_id* id) {
  const guard w;
  auto& found = *w->ids.find(id);
  if (const int error = w->fault(call::rdma_disconnect, found.at)) {
    return minus_one(error);
  }
  if (found.pair != nullptr) {
    w->enter_error(*found.pair);
  }
  if (found.where != id_state::accepted && found.where != id_state::connected) {
    return minus_one(EINVAL);
  }
  w->leave(found);
  return 0;
}

int rdma_get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  const guard w;
  auto& from = *w->event_channels.find(channel);
  if ((fcntl(from.fd, F_GETFL) & O_NONBLOCK) == 0) {
    w->violation("an event is awaited of an event channel that blocks");
  }
  if (const int error = w->fault(call::rdma_get_cm_event, from.at)) {
    return minus_one(error);
  }
  if (from.queue.empty()) {
    return minus_one(EAGAIN);
  }
  std::ignore = from.ready.take();
  auto next = std::move(from.queue.front());
  from.queue.pop_front();
  auto& id = *w->ids.find(next->id);
  id.known = true;
  if (next->event == RDMA_CM_EVENT_ESTABLISHED && id.where == id_state::requesting) {
    w->finish_connecting(id, *next);
  }
  ++(next->listen_id != nullptr ? *w->ids.find(next->listen_id) : id).unacknowledged;
  *event = &w->fetched.add(std::move(next));
  return 0;
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  const guard w;
  auto* const found = w->fetched.find(event);
  if (found == nullptr) {
    w->violation("an event of rdma_cm is acknowledged twice");
    return minus_one(EINVAL);
  }
  --w->ids.find(event->listen_id != nullptr ? event->listen_id : event->id)->unacknowledged;
  w->fetched.remove(*found);
  return 0;
}
