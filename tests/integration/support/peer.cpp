#include "tests/integration/support/peer.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace gpurdma::test {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t message_size = 512;
constexpr std::size_t sends = 64;  // buffers, used in turn
constexpr std::size_t data_size = std::size_t{1} << 20U;
constexpr std::uint64_t send_id = 1'000'000;
constexpr std::uint64_t one_sided_id = 2'000'000;

void require(bool ok, const std::string& what) {
  if (!ok) {
    throw std::runtime_error{"peer: " + what + ": " + std::strerror(errno)};
  }
}

int left(clock::time_point end) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now()).count();
  return static_cast<int>(std::max<std::int64_t>(ms, 0));
}

}  // namespace

peer::peer() : peer{options{}} {}

peer::peer(options o) : options_{o} {
  channel_ = rdma_create_event_channel();
  require(channel_ != nullptr, "no event channel");
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  require(rdma_create_id(channel_, &id_, nullptr, RDMA_PS_TCP) == 0, "no id");
}

peer::~peer() {
  if (id_->qp != nullptr) {
    rdma_destroy_qp(id_);
  }
  if (queue_ != nullptr) {
    ibv_destroy_cq(queue_);
  }
  if (region_ != nullptr) {
    ibv_dereg_mr(region_);
  }
  if (domain_ != nullptr) {
    ibv_dealloc_pd(domain_);
  }
  rdma_destroy_id(id_);
  rdma_destroy_event_channel(channel_);
}

rdma_cm_event_type peer::next_event(std::chrono::milliseconds limit) {
  pollfd fd{channel_->fd, POLLIN, 0};
  rdma_cm_event* event = nullptr;
  if (poll(&fd, 1, static_cast<int>(limit.count())) <= 0 || rdma_get_cm_event(channel_, &event) != 0) {
    throw std::runtime_error{"peer: no event"};
  }
  const auto type = event->event;
  const auto& conn = event->param.conn;
  const auto* const bytes = static_cast<const std::byte*>(conn.private_data);
  if (bytes != nullptr) {
    answer_.assign(bytes, bytes + conn.private_data_len);
  }
  rdma_ack_cm_event(event);
  return type;
}

void peer::resolve(const std::string& address, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  require(getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found) == 0, "no address");
  const int result = rdma_resolve_addr(id_, nullptr, found->ai_addr, 2000);
  freeaddrinfo(found);
  require(result == 0 && next_event(patience) == RDMA_CM_EVENT_ADDR_RESOLVED, "address not resolved");
  require(rdma_resolve_route(id_, 2000) == 0 && next_event(patience) == RDMA_CM_EVENT_ROUTE_RESOLVED, "no route");
  domain_ = ibv_alloc_pd(id_->verbs);
  queue_ = ibv_create_cq(id_->verbs, 4096, nullptr, nullptr, 0);
  memory_.resize((options_.receives + sends) * message_size + data_size);
  data_ = std::span{memory_}.last(data_size);
  region_ = ibv_reg_mr(domain_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
  require(domain_ != nullptr && queue_ != nullptr && region_ != nullptr, "no resources");
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = queue_;
  attributes.recv_cq = queue_;
  attributes.sq_sig_all = 1;
  attributes.cap = {.max_send_wr = 1024,
                    .max_recv_wr = std::max(options_.receives, 1U),
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
  require(rdma_create_qp(id_, domain_, &attributes) == 0, "no queue pair");
  for (std::uint64_t slot = 0; slot < options_.receives; ++slot) {
    post_receive(slot);
  }
}

void peer::post_receive(std::uint64_t slot) {
  ibv_sge sge{std::bit_cast<std::uintptr_t>(memory_.data() + slot * message_size), message_size, region_->lkey};
  ibv_recv_wr request{};
  request.wr_id = slot;
  request.sg_list = &sge;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  require(ibv_post_recv(id_->qp, &request, &bad) == 0, "cannot post a RECV");
}

void peer::request_connection(std::span<const std::byte> private_data) {
  rdma_conn_param parameters{};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data.size());
  parameters.initiator_depth = 16;
  parameters.retry_count = 6;
  parameters.rnr_retry_count = options_.rnr_retries;
  require(rdma_connect(id_, &parameters) == 0, "cannot connect");
}

bool peer::connect(std::span<const std::byte> private_data) {
  request_connection(private_data);
  const auto event = next_event(patience);
  lost_ = event != RDMA_CM_EVENT_ESTABLISHED;
  return !lost_;
}

void peer::disconnect() { rdma_disconnect(id_); }

void peer::send(std::span<const std::byte> bytes) {
  auto* const buffer = memory_.data() + (options_.receives + sent_++ % sends) * message_size;
  std::copy(bytes.begin(), bytes.end(), buffer);
  ibv_sge sge{std::bit_cast<std::uintptr_t>(buffer), static_cast<std::uint32_t>(bytes.size()), region_->lkey};
  ibv_send_wr request{};
  request.wr_id = send_id;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  ibv_send_wr* bad = nullptr;
  // A full send queue is no failure of a peer that floods.
  if (ibv_post_send(id_->qp, &request, &bad) != 0) {
    std::ignore = poll_once(std::chrono::milliseconds{10});
  }
}

void peer::take(const ibv_wc& wc) {
  if (wc.wr_id >= one_sided_id) {
    one_sided_result_ = wc.status;
  }
  if (wc.status != IBV_WC_SUCCESS) {
    lost_ = true;
    return;
  }
  if (wc.wr_id < send_id) {
    const auto* const begin = memory_.data() + wc.wr_id * message_size;
    received_.emplace_back(begin, begin + wc.byte_len);
    if (!lost_) {
      post_receive(wc.wr_id);
    }
  }
}

std::optional<ibv_wc> peer::poll_once(std::chrono::milliseconds limit) {
  // A test may spin; this keeps the peer small.
  const auto end = clock::now() + limit;
  ibv_wc wc{};
  do {
    if (ibv_poll_cq(queue_, 1, &wc) == 1) {
      take(wc);
      return wc;
    }
    pollfd fd{channel_->fd, POLLIN, 0};
    if (poll(&fd, 1, 1) > 0 && next_event(std::chrono::milliseconds{0}) == RDMA_CM_EVENT_DISCONNECTED) {
      lost_ = true;
    }
  } while (!lost_ && clock::now() < end);
  return std::nullopt;
}

std::optional<protocol::message> peer::receive(std::chrono::milliseconds limit) {
  const auto end = clock::now() + limit;
  while (true) {
    while (received_.empty() && !lost_ && clock::now() < end) {
      std::ignore = poll_once(std::chrono::milliseconds{std::min(left(end), 50)});
    }
    ibv_wc wc{};
    while (received_.empty() && ibv_poll_cq(queue_, 1, &wc) == 1) {
      take(wc);  // what arrived before the connection was lost
    }
    if (received_.empty()) {
      return std::nullopt;
    }
    const auto bytes = std::move(received_.front());
    received_.erase(received_.begin());
    auto m = protocol::decode(bytes);
    if (!m) {
      throw std::runtime_error{"peer: the server sent a malformed message"};
    }
    if (!std::holds_alternative<protocol::ping>(m->content)) {
      return *std::move(m);
    }
    send(m->request_id, protocol::pong{});
  }
}

bool peer::post_one_sided(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t rkey, std::uint32_t length) {
  ibv_sge sge{std::bit_cast<std::uintptr_t>(data_.data()), length, region_->lkey};
  ibv_send_wr request{};
  request.wr_id = one_sided_id;
  request.sg_list = &sge;
  request.num_sge = 1;
  request.opcode = opcode;
  if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    request.wr.atomic.remote_addr = address;
    request.wr.atomic.rkey = rkey;
    request.wr.atomic.compare_add = 1;
  } else {
    request.wr.rdma.remote_addr = address;
    request.wr.rdma.rkey = rkey;
  }
  one_sided_result_.reset();
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(id_->qp, &request, &bad) == 0;
}

ibv_wc_status peer::one_sided(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t rkey, std::uint32_t length) {
  if (!post_one_sided(opcode, address, rkey, length)) {
    return IBV_WC_GENERAL_ERR;
  }
  const auto end = clock::now() + patience;
  while (!one_sided_result_ && !lost_ && clock::now() < end) {
    std::ignore = poll_once(std::chrono::milliseconds{50});
  }
  return one_sided_result_.value_or(lost_ ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RESP_TIMEOUT_ERR);
}

void peer::start_read(std::uint64_t address, std::uint32_t rkey, std::uint32_t length) {
  require(post_one_sided(IBV_WR_RDMA_READ, address, rkey, length), "cannot post a READ");
}

ibv_wc_status peer::read(std::uint64_t address, std::uint32_t rkey, std::uint32_t length) {
  return one_sided(IBV_WR_RDMA_READ, address, rkey, length);
}

ibv_wc_status peer::write(std::uint64_t address, std::uint32_t rkey, std::uint32_t length, ibv_wr_opcode opcode) {
  return one_sided(opcode, address, rkey, length);
}

bool peer::is_lost(std::chrono::milliseconds limit) {
  const auto end = clock::now() + limit;
  while (!lost_ && clock::now() < end) {
    std::ignore = poll_once(std::chrono::milliseconds{50});
  }
  return lost_;
}

}  // namespace gpurdma::test
