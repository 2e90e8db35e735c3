// Queue pairs joined by the wire: SEND to RECV, READ, flushing, completions.

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <vector>

#include "objects.hpp"

namespace gpurdma::fake_verbs {
namespace {

bool within(std::uint64_t address, std::uint64_t length, std::uint64_t base, std::uint64_t size) {
  return address >= base && length <= size && address - base <= size - length;
}

/// Whether the queue pair's adapter may use its own memory so.
bool may_use(const queue_pair& q, const memory_region* r, const ibv_sge& what, bool to_write) {
  return r != nullptr && r->pd == q.pd && within(what.addr, what.length, r->iova, r->length) &&
         (!to_write || (r->access & IBV_ACCESS_LOCAL_WRITE) != 0);
}

bool receives(const queue_pair* q) { return q != nullptr && (q->state == IBV_QPS_RTR || q->state == IBV_QPS_RTS); }

void* pointer(std::uint64_t address) { return std::bit_cast<void*>(address); }

/// What a READ of `length` bytes at `address` of the region brings.
bool copy_out(const memory_region& from, std::uint64_t address, void* to, std::size_t length) {
  if (from.fd < 0) {
    std::memcpy(to, pointer(address), length);
    return true;
  }
  const auto at = static_cast<off_t>(from.offset + (address - from.iova));
  return pread(from.fd, to, length, at) == static_cast<ssize_t>(length);
}

}  // namespace

queue_pair* state::pair_of(std::uint32_t qp_number) const {
  return pairs.find_if([&](const auto& q) { return q.qp_num == qp_number; });
}

memory_region* state::region_of(host at, std::uint32_t key) const {
  return regions.find_if([&](const auto& r) { return r.at == at && r.lkey == key; });
}

void state::raise(completion_queue& q) {
  auto* const channel = channels.find(q.channel);
  if (channel != nullptr) {
    channel->queues.push_back(&q);
    channel->events.add();
  }
}

ibv_wc_status state::spoiled(queue_pair& q, work kind) {
  auto& planned = plan_of(q.at).completions[static_cast<std::size_t>(kind)];
  if (planned.in == 0 || --planned.in != 0) {
    return IBV_WC_SUCCESS;
  }
  return static_cast<ibv_wc_status>(planned.error);
}

void state::complete(queue_pair& q, const posted_work& w, ibv_wc_status status, std::uint32_t bytes) {
  auto& to = *queues.find(w.kind == work::receive ? q.recv_cq : q.send_cq);
  const auto shown = status == IBV_WC_SUCCESS ? spoiled(q, w.kind) : status;
  cq_entry entry{.what = {}, .qp = q.qp_num, .kind = w.kind};
  entry.what.wr_id = w.wr_id;
  entry.what.status = shown;
  entry.what.qp_num = q.qp_num;
  // On an error the other members say nothing, which is not the same as 0.
  entry.what.byte_len = shown == IBV_WC_SUCCESS ? bytes : 0xDEADBEEF;
  to.entries.push_back(entry);
  if (to.entries.size() > static_cast<std::size_t>(to.cqe)) {
    violation("a completion queue of " + std::to_string(to.cqe) + " entries overran");
  }
  if (to.armed) {
    to.armed = false;
    raise(to);
  }
  if (shown != IBV_WC_SUCCESS && q.state != IBV_QPS_ERR) {
    enter_error(q);
  }
}

void state::enter_error(queue_pair& q) {
  q.state = IBV_QPS_ERR;
  if (plan_of(q.at).never_flush) {
    return;
  }
  for (auto* const posted : {&q.sends, &q.receives}) {
    for (const auto& w : std::exchange(*posted, {})) {
      complete(q, w, IBV_WC_WR_FLUSH_ERR);
    }
  }
}

void state::progress(queue_pair& q) {
  auto* const peer = pair_of(q.remote);
  while (!q.sends.empty() && q.state == IBV_QPS_RTS && receives(peer)) {
    if (q.sends.front().kind == work::read) {
      if (plan_of(q.at).hold_reads) {
        return;
      }
      read_one(q, *peer);
    } else if (!send_one(q, *peer)) {
      return;
    }
  }
}

void state::progress_of_peer(queue_pair& q) {
  if (auto* const peer = pair_of(q.remote)) {
    progress(*peer);
  }
}

bool state::send_one(queue_pair& q, queue_pair& peer) {
  if (peer.receives.empty()) {
    return false;  // receiver not ready: tried again when it is
  }
  const auto sent = q.sends.front();
  const auto received = peer.receives.front();
  q.sends.pop_front();
  peer.receives.pop_front();
  if (!may_use(q, region_of(q.at, sent.sge.lkey), sent.sge, false)) {
    peer.receives.push_front(received);
    complete(q, sent, IBV_WC_LOC_PROT_ERR);
  } else if (sent.sge.length > received.sge.length) {
    complete(peer, received, IBV_WC_LOC_LEN_ERR);
    complete(q, sent, IBV_WC_REM_INV_REQ_ERR);
  } else if (!may_use(peer, region_of(peer.at, received.sge.lkey), received.sge, true)) {
    complete(peer, received, IBV_WC_LOC_PROT_ERR);
    complete(q, sent, IBV_WC_REM_OP_ERR);
  } else {
    std::memcpy(pointer(received.sge.addr), pointer(sent.sge.addr), sent.sge.length);
    complete(peer, received, IBV_WC_SUCCESS, sent.sge.length);
    complete(q, sent, IBV_WC_SUCCESS);
  }
  return true;
}

void state::read_one(queue_pair& q, queue_pair& peer) {
  const auto wanted = q.sends.front();
  q.sends.pop_front();
  const auto* const from = region_of(peer.at, wanted.rkey);
  if (!may_use(q, region_of(q.at, wanted.sge.lkey), wanted.sge, true)) {
    complete(q, wanted, IBV_WC_LOC_PROT_ERR);
  } else if ((peer.access & IBV_ACCESS_REMOTE_READ) == 0) {
    complete(q, wanted, IBV_WC_REM_INV_REQ_ERR);
    enter_error(peer);
  } else if (from == nullptr || from->pd != peer.pd || (from->access & IBV_ACCESS_REMOTE_READ) == 0 ||
             !within(wanted.remote_address, wanted.sge.length, from->iova, from->length)) {
    complete(q, wanted, IBV_WC_REM_ACCESS_ERR);
    enter_error(peer);
  } else if (!copy_out(*from, wanted.remote_address, pointer(wanted.sge.addr), wanted.sge.length)) {
    complete(q, wanted, IBV_WC_REM_OP_ERR);
  } else {
    complete(q, wanted, IBV_WC_SUCCESS);
  }
}

void state::end_reads_of_peer(queue_pair& q) {
  auto* const peer = pair_of(q.remote);
  if (peer != nullptr && peer->state == IBV_QPS_RTS && !peer->sends.empty() && peer->sends.front().kind == work::read) {
    read_one(*peer, q);
  }
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* wcs) {
  const guard w;
  auto* const q = w->queues.find(cq);
  if (q == nullptr || w->fault(call::ibv_poll_cq, q->at) != 0) {
    return -1;
  }
  int count = 0;
  for (; count < most && !q->entries.empty(); ++count) {
    const auto entry = q->entries.front();
    q->entries.pop_front();
    wcs[count] = entry.what;
    if (auto* const pair = w->pair_of(entry.qp)) {
      --(entry.kind == work::receive ? pair->receives_used : pair->sends_used);
    }
  }
  return count;
}

int req_notify_cq(ibv_cq* cq, int) {
  const guard w;
  auto* const q = w->queues.find(cq);
  if (q == nullptr) {
    return number(EINVAL);
  }
  if (const int error = w->fault(call::ibv_req_notify_cq, q->at)) {
    return number(error);
  }
  q->armed = true;
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const guard w;
  *bad = wr;
  auto* const q = w->pairs.find(qp);
  if (q == nullptr || q->state == IBV_QPS_RESET || wr->num_sge != 1 || wr->next != nullptr) {
    w->violation("a RECV was posted that cannot be");
    return number(EINVAL);
  }
  if (const int error = w->fault(call::ibv_post_recv, q->at)) {
    return number(error);
  }
  if (q->receives_used == q->bounds.max_recv_wr) {
    return number(ENOMEM);
  }
  ++q->receives_used;
  q->receives.push_back({.wr_id = wr->wr_id, .kind = work::receive, .sge = *wr->sg_list});
  if (q->state == IBV_QPS_ERR) {
    w->enter_error(*q);
  } else {
    w->progress_of_peer(*q);
  }
  return 0;
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  const guard w;
  *bad = wr;
  auto* const q = w->pairs.find(qp);
  const bool reads = wr->opcode == IBV_WR_RDMA_READ;
  if (q == nullptr || wr->num_sge != 1 || wr->next != nullptr || (!reads && wr->opcode != IBV_WR_SEND)) {
    w->violation("a SEND or READ was posted that cannot be");
    return number(EINVAL);
  }
  if (const int error = w->fault(call::ibv_post_send, q->at)) {
    return number(error);
  }
  if (q->state != IBV_QPS_RTS && q->state != IBV_QPS_ERR) {
    return number(EINVAL);
  }
  if (q->sends_used == q->bounds.max_send_wr) {
    return number(ENOMEM);
  }
  ++q->sends_used;
  q->sends.push_back({.wr_id = wr->wr_id,
                      .kind = reads ? work::read : work::send,
                      .sge = *wr->sg_list,
                      .remote_address = reads ? wr->wr.rdma.remote_addr : 0,
                      .rkey = reads ? wr->wr.rdma.rkey : 0});
  if (q->state == IBV_QPS_ERR) {
    w->enter_error(*q);
  } else {
    w->progress(*q);
  }
  return 0;
}

}  // namespace gpurdma::fake_verbs
