// libibverbs: what is made from a device, and destroyed in the right order.

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "objects.hpp"

// These are macros for inline functions that call the functions.
#undef ibv_reg_mr
#undef ibv_query_port

namespace {

using namespace gpurdma::fake_verbs;

bool blocks(int fd) { return (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

ibv_mr* register_memory(ibv_pd* pd, registration what) {
  const guard w;
  const auto* const domain = w->domains.find(pd);
  if (domain == nullptr) {
    w->violation("memory is registered in a protection domain that is not there");
    return null(EINVAL);
  }
  what.at = domain->at;
  what.domain = pd;
  what.error = w->fault(what.how, what.at);
  if (what.error == 0 && what.how == call::ibv_reg_dmabuf_mr && fcntl(what.fd, F_GETFD) < 0) {
    what.error = EBADF;
  }
  w->registrations.push_back(what);
  if (what.error != 0) {
    return null(what.error);
  }
  auto& made = w->regions.add();
  made.context = pd->context;
  made.pd = pd;
  made.addr = std::bit_cast<void*>(what.address);
  made.length = what.length;
  made.lkey = made.rkey = ++w->last_number;
  made.at = what.at;
  made.access = what.access;
  made.iova = what.iova;
  if (what.how == call::ibv_reg_dmabuf_mr) {
    made.fd = fcntl(what.fd, F_DUPFD_CLOEXEC, 0);
    made.offset = what.offset;
  }
  return &made;
}

ibv_mr* register_host_memory(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access) {
  registration what;
  what.how = call::ibv_reg_mr;
  what.address = std::bit_cast<std::uintptr_t>(address);
  what.length = length;
  what.iova = iova;
  what.access = access;
  return register_memory(pd, what);
}

/// Whether something is posted that names the region.
bool is_posted(const state& world, const memory_region& region) {
  const auto names_it = [&](const posted_work& p) { return p.sge.lkey == region.lkey; };
  return world.pairs.find_if([&](const auto& q) {
    return q.at == region.at && (std::any_of(q.sends.begin(), q.sends.end(), names_it) ||
                                 std::any_of(q.receives.begin(), q.receives.end(), names_it));
  }) != nullptr;
}

}  // namespace

int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  const guard w;
  const auto& d = *w->device_of(context);
  if (const int error = w->fault(call::ibv_query_device, d.at)) {
    return number(error);
  }
  *attributes = {};
  attributes->max_cqe = d.bounds.completion_queue_entries;
  attributes->max_qp_wr = d.bounds.work_requests;
  attributes->max_qp_rd_atom = d.bounds.reads;
  attributes->max_qp_init_rd_atom = d.bounds.reads;
  attributes->phys_port_cnt = 1;
  return 0;
}

int ibv_query_port(ibv_context* context, std::uint8_t, _compat_ibv_port_attr* attributes) {
  const guard w;
  const auto& d = *w->device_of(context);
  if (const int error = w->fault(call::ibv_query_port, d.at)) {
    return number(error);
  }
  // The older struct is the beginning of the newer.
  std::bit_cast<ibv_port_attr*>(attributes)->max_msg_sz = d.bounds.message_size;
  return 0;
}

const char* ibv_get_device_name(ibv_device* device) { return &device->name[0]; }

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  const guard w;
  const auto at = w->device_of(context)->at;
  if (const int error = w->fault(call::ibv_alloc_pd, at)) {
    return null(error);
  }
  auto& made = w->domains.add();
  made.context = context;
  made.at = at;
  return &made;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  const guard w;
  auto* const domain = w->domains.find(pd);
  const auto is_of = [&](const auto& object) { return object.pd == pd; };
  if (domain == nullptr || w->regions.find_if(is_of) != nullptr || w->pairs.find_if(is_of) != nullptr) {
    w->violation("a protection domain is deallocated that is not there, or still has a region or a queue pair");
    return number(EBUSY);
  }
  w->domains.remove(*domain);
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t length, int access) {
  return register_host_memory(pd, address, length, std::bit_cast<std::uintptr_t>(address),
                              static_cast<unsigned>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t length, std::uint64_t iova, unsigned access) {
  return register_host_memory(pd, address, length, iova, access);
}

ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd,
                          int access) {
  registration what;
  what.how = call::ibv_reg_dmabuf_mr;
  what.length = length;
  what.iova = iova;
  what.fd = fd;
  what.offset = offset;
  what.access = static_cast<unsigned>(access);
  return register_memory(pd, what);
}

int ibv_dereg_mr(ibv_mr* mr) {
  const guard w;
  auto* const region = w->regions.find(mr);
  if (region == nullptr) {
    w->violation("a memory region is deregistered that is not there");
    return number(EINVAL);
  }
  if (is_posted(*w, *region)) {
    w->violation("a memory region is deregistered under a work request that is posted");
  }
  w->regions.remove(*region);
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const guard w;
  const auto at = w->device_of(context)->at;
  if (const int error = w->fault(call::ibv_create_comp_channel, at)) {
    return null(error);
  }
  auto& made = w->channels.add();
  made.context = context;
  made.fd = made.events.get();
  made.at = at;
  return &made;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  const guard w;
  auto* const found = w->channels.find(channel);
  if (found == nullptr || w->queues.find_if([&](const auto& q) { return q.channel == channel; }) != nullptr) {
    w->violation("a completion channel is destroyed that is not there, or still has a queue");
    return number(EBUSY);
  }
  w->channels.remove(*found);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int entries, void* cq_context, ibv_comp_channel* channel, int) {
  const guard w;
  const auto& d = *w->device_of(context);
  if (const int error = w->fault(call::ibv_create_cq, d.at)) {
    return null(error);
  }
  if (entries < 1 || entries > d.bounds.completion_queue_entries) {
    return null(EINVAL);
  }
  auto& made = w->queues.add();
  made.context = context;
  made.channel = channel;
  made.cq_context = cq_context;
  made.cqe = entries;
  made.at = d.at;
  return &made;
}

int ibv_destroy_cq(ibv_cq* cq) {
  const guard w;
  auto* const q = w->queues.find(cq);
  const auto uses_it = [&](const auto& pair) { return pair.send_cq == cq || pair.recv_cq == cq; };
  if (q == nullptr || w->pairs.find_if(uses_it) != nullptr) {
    w->violation("a completion queue is destroyed that is not there, or still has a queue pair");
    return number(EBUSY);
  }
  if (q->unacknowledged != 0) {
    w->violation("ibv_destroy_cq would wait for ever: events are not acknowledged");
  }
  auto& channel = *w->channels.find(q->channel);
  for (auto taken = std::erase(channel.queues, q); taken != 0; --taken) {
    std::ignore = channel.events.take();
  }
  w->queues.remove(*q);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  const guard w;
  auto* const from = w->channels.find(channel);
  if (from == nullptr || blocks(from->fd)) {
    w->violation("an event is awaited of a completion channel that is not there, or blocks");
    return minus_one(EINVAL);
  }
  if (const int error = w->fault(call::ibv_get_cq_event, from->at)) {
    return minus_one(error);
  }
  if (from->queues.empty()) {
    return minus_one(EAGAIN);
  }
  std::ignore = from->events.take();
  auto* const q = from->queues.front();
  from->queues.pop_front();
  ++q->unacknowledged;
  *cq = q;
  *cq_context = q->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  const guard w;
  auto* const q = w->queues.find(cq);
  if (q == nullptr || q->unacknowledged < count) {
    w->violation("more events of a completion queue are acknowledged than there were");
    return;
  }
  q->unacknowledged -= count;
}

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attributes, int mask) {
  const guard w;
  auto* const q = w->pairs.find(qp);
  if (q == nullptr) {
    w->violation("a queue pair is modified that is not there");
    return number(EINVAL);
  }
  if (const int error = w->fault(call::ibv_modify_qp, q->at)) {
    return number(error);
  }
  if (attributes->qp_state == IBV_QPS_ERR) {
    w->enter_error(*q);
    return 0;
  }
  if (attributes->qp_state != IBV_QPS_RTS || q->state != IBV_QPS_RTS) {
    return number(EINVAL);
  }
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
    q->access = attributes->qp_access_flags;
    if ((q->access & IBV_ACCESS_REMOTE_READ) == 0) {
      w->end_reads_of_peer(*q);
    }
  }
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  const guard w;
  auto* const q = w->pairs.find(qp);
  if (q == nullptr) {
    w->violation("a queue pair is destroyed that is not there");
    return number(EINVAL);
  }
  if (q->id != nullptr) {
    q->id->pair = nullptr;
  }
  w->pairs.remove(*q);
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  const guard w;
  auto& d = *w->device_of(context);
  if (blocks(d.async_fd.get())) {
    w->violation("an asynchronous event is awaited of a descriptor that blocks");
  }
  if (d.async_events.empty()) {
    return minus_one(EAGAIN);
  }
  std::ignore = d.async_fd.take();
  *event = d.async_events.front();
  d.async_events.pop_front();
  return 0;
}

void ibv_ack_async_event(ibv_async_event*) {}
