#include "rdma/connection.hpp"

#include <algorithm>
#include <bit>
#include <boost/asio/post.hpp>
#include <cassert>
#include <cstdlib>
#include <new>
#include <tuple>
#include <utility>

#include "rdma/error.hpp"

namespace gpurdma::rdma {
namespace {

constexpr std::chrono::seconds linger_limit{1};

// The REQ's counts rule the queue pairs of both sides. rxe with a retry count of 7 never reports a dead peer
// (measured), and 7 for RNR means for ever.
constexpr std::uint8_t retry_count = 6;
constexpr std::uint8_t rnr_retry_count = 6;

// 0.64 ms (InfiniBand specification, table 45) instead of the CM's 655 ms, for a peer that was faster than our RECV.
constexpr std::uint8_t min_rnr_timer = 12;

constexpr std::size_t page_size = 4096;

}  // namespace

void connection::pages_free::operator()(std::byte* p) const noexcept {
  std::free(p);  // NOLINT(cppcoreguidelines-no-malloc,cppcoreguidelines-owning-memory): of aligned_alloc
}

connection::connection(boost::asio::io_context& io, workers& closers, device& on, ibv_pd& domain, cm_id&& id,
                       connection_settings settings, connection_handler& handler)
    : io_{io}, closers_{closers}, device_{on}, domain_{domain}, settings_{settings}, handler_{handler}, id_{id.get()} {
  cm_event_channel::set_handler(*id_, *this);
  const auto bytes =
      std::size_t{settings.receives} * settings.receive_size + std::size_t{settings.sends} * settings.send_size;
  const auto rounded = (bytes + page_size - 1) / page_size * page_size;
  // Pages of their own: the adapter writes here, and nothing else should live beside it.
  messages_.reset(static_cast<std::byte*>(std::aligned_alloc(page_size, rounded)));
  if (!messages_) {
    throw std::bad_alloc{};
  }
  std::fill_n(messages_.get(), rounded, std::byte{0});
  messages_region_.emplace(domain, std::bit_cast<std::uintptr_t>(messages_.get()), rounded, region_access::local_write);
  create_queue_pair();
  for (std::uint32_t i = 0; i < settings.sends; ++i) {
    free_sends_.push_back(i);
  }
  try {
    post_receives();
  } catch (...) {
    // What is posted goes with the queue pair, and its completions with the table's entries.
    device_.work_requests().forget(*this);
    id_->qp = nullptr;
    throw;
  }
  owned_id_ = std::move(id);
}

void connection::post_receives() {
  for (std::uint32_t i = 0; i < settings_.receives; ++i) {
    if (const auto why = post_receive(i)) {
      fail(why, "cannot post a RECV on " + device_.name());
    }
  }
}

connection::~connection() {
  assert(posted_ == 0);
  *alive_ = false;
}

void connection::create_queue_pair() {
  const auto wanted = settings_.receives + settings_.sends + settings_.reads;
  completions_ = device_.reserve_completions(wanted, *this);
  ibv_qp_init_attr attributes{};
  attributes.qp_type = IBV_QPT_RC;
  attributes.send_cq = completions_.queue();
  attributes.recv_cq = completions_.queue();
  attributes.sq_sig_all = 1;
  attributes.cap.max_send_wr = settings_.sends + settings_.reads;
  attributes.cap.max_recv_wr = settings_.receives;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_sge = 1;
  if (rdma_create_qp(id_, &domain_, &attributes) != 0) {
    fail(last_error(), "cannot create a queue pair on " + device_.name());
  }
  queue_pair_.reset(id_->qp);
  queue_pair_number_ = id_->qp->qp_num;
}

std::span<std::byte> connection::receive_buffer(std::uint32_t index) noexcept {
  return {messages_.get() + std::size_t{index} * settings_.receive_size, settings_.receive_size};
}

std::span<std::byte> connection::send_buffer(std::uint32_t index) noexcept {
  const auto first = std::size_t{settings_.receives} * settings_.receive_size;
  return {messages_.get() + first + std::size_t{index} * settings_.send_size, settings_.send_size};
}

template <typename Request, typename Post>
std::error_code connection::post(work_kind kind, std::uint32_t index, Request& request, ibv_sge sge, Post post_it) {
  request.wr_id = device_.work_requests().add({this, kind, index});
  request.sg_list = &sge;
  request.num_sge = 1;
  Request* bad = nullptr;
  if (const auto why = check_number(post_it(queue_pair_.get(), &request, &bad))) {
    std::ignore = device_.work_requests().take(request.wr_id);
    return why;
  }
  ++posted_;
  return {};
}

ibv_sge connection::message_sge(std::span<const std::byte> buffer) const noexcept {
  return {std::bit_cast<std::uintptr_t>(buffer.data()), static_cast<std::uint32_t>(buffer.size()),
          messages_region_->lkey()};
}

std::error_code connection::post_receive(std::uint32_t index) {
  ibv_recv_wr request{};
  return post(work_kind::receive, index, request, message_sge(receive_buffer(index)), &ibv_post_recv);
}

std::error_code connection::post_send(std::uint32_t index, std::span<const std::byte> bytes) {
  const auto buffer = send_buffer(index);
  assert(bytes.size() <= buffer.size());
  std::copy(bytes.begin(), bytes.end(), buffer.begin());
  ibv_send_wr request{};
  request.opcode = IBV_WR_SEND;
  return post(work_kind::send, index, request, message_sge(buffer.first(bytes.size())), &ibv_post_send);
}

std::error_code connection::accept(std::uint8_t reads_in, std::span<const std::byte> private_data) {
  rdma_conn_param parameters{};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data.size());
  parameters.responder_resources = reads_in;
  parameters.initiator_depth = 0;
  state_ = state::connecting;
  accepted_ = true;
  if (rdma_accept(id_, &parameters) != 0) {
    return last_error();
  }
  // The CM opens a queue pair to remote READ, WRITE and atomics. Nothing is registered for WRITE anywhere, but what
  // is not needed is not left open either.
  return allow_remote_read(false);
}

std::error_code connection::connect(std::uint8_t reads_out, std::span<const std::byte> private_data) {
  rdma_conn_param parameters{};
  parameters.private_data = private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(private_data.size());
  parameters.responder_resources = 0;
  parameters.initiator_depth = reads_out;
  parameters.retry_count = retry_count;
  parameters.rnr_retry_count = rnr_retry_count;
  state_ = state::connecting;
  return check_errno(rdma_connect(id_, &parameters));
}

std::error_code connection::allow_remote_read(bool allowed) {
  if (state_ != state::connecting && state_ != state::established) {
    return connection_error::closed;
  }
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.qp_access_flags = allowed ? IBV_ACCESS_REMOTE_READ : 0;
  attributes.min_rnr_timer = min_rnr_timer;
  return check_number(
      ibv_modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER));
}

std::error_code connection::send(std::span<const std::byte> bytes) {
  if (state_ != state::connecting && state_ != state::established) {
    return connection_error::closed;
  }
  if (free_sends_.empty()) {
    if (queued_sends_.size() >= settings_.queued_sends) {
      return std::make_error_code(std::errc::no_buffer_space);
    }
    queued_sends_.emplace_back(bytes.begin(), bytes.end());
    return {};
  }
  return post_send_now(bytes);
}

std::error_code connection::post_send_now(std::span<const std::byte> bytes) {
  const auto index = free_sends_.back();
  const auto why = post_send(index, bytes);
  if (!why) {
    free_sends_.pop_back();
  }
  return why;
}

std::error_code connection::read(std::uint32_t tag, std::uint64_t local, std::uint32_t lkey, std::uint64_t remote,
                                 std::uint32_t rkey, std::uint32_t length) {
  if (state_ != state::established) {
    return connection_error::closed;
  }
  if (reads_posted_ >= settings_.reads) {
    return std::make_error_code(std::errc::no_buffer_space);
  }
  ibv_send_wr request{};
  request.opcode = IBV_WR_RDMA_READ;
  request.wr.rdma.remote_addr = remote;
  request.wr.rdma.rkey = rkey;
  if (const auto why = post(work_kind::read, tag, request, {local, length, lkey}, &ibv_post_send)) {
    return why;
  }
  ++reads_posted_;
  return {};
}

void connection::on_cm_event(const cm_event& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ESTABLISHED:
      on_established(event.private_data());
      break;
    case RDMA_CM_EVENT_REJECTED:
      failed(rejection(event.status), event.private_data());
      break;
    case RDMA_CM_EVENT_UNREACHABLE:
      failed(connection_error::unreachable);
      break;
    case RDMA_CM_EVENT_CONNECT_ERROR:
      failed(connection_error::failed);
      break;
    case RDMA_CM_EVENT_DISCONNECTED:
      failed(connection_error::disconnected);
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      failed(connection_error::device_removed);
      break;
    default:  // TIMEWAIT_EXIT and what concerns other kinds of id
      break;
  }
}

std::error_code connection::rejection(int reason) const noexcept {
  // IBA, volume 1, table 107: nobody listens for the service.
  constexpr int invalid_service_id = 8;
  if (accepted_) {
    return connection_error::given_up;
  }
  return reason == invalid_service_id ? connection_error::refused : connection_error::rejected;
}

void connection::on_established(std::span<const std::byte> private_data) {
  if (state_ == state::connecting) {
    state_ = state::established;
    handler_.on_established(private_data);
  }
}

void connection::on_completion(work_kind kind, std::uint32_t index, const completion& what) {
  --posted_;
  switch (kind) {
    case work_kind::receive:
      on_received(index, what);
      break;
    case work_kind::send:
      on_sent(index, what);
      break;
    case work_kind::read:
      --reads_posted_;
      handler_.on_read_done(index, what.status == IBV_WC_SUCCESS ? std::error_code{} : make_error_code_of(what.status));
      if (what.status != IBV_WC_SUCCESS) {
        failed(make_error_code_of(what.status));
      }
      break;
  }
  finish_if_drained();
}

void connection::on_queue_lost(std::error_code why) {
  hopeless_ = true;
  if (state_ == state::draining) {
    set_deadline(std::chrono::milliseconds{0});
  }
  failed(why);
}

void connection::on_sent(std::uint32_t index, const completion& what) {
  free_sends_.push_back(index);
  if (what.status != IBV_WC_SUCCESS) {
    failed(make_error_code_of(what.status));
    return;
  }
  if (state_ != state::draining && !queued_sends_.empty()) {
    const auto next = std::move(queued_sends_.front());
    queued_sends_.pop_front();
    if (const auto why = post_send_now(next)) {
      failed(why);
    }
  }
  if (state_ == state::lingering && free_sends_.size() == settings_.sends) {
    start_draining();
  }
}

void connection::on_received(std::uint32_t index, const completion& what) {
  if (what.status != IBV_WC_SUCCESS) {
    failed(make_error_code_of(what.status));
    return;
  }
  if (state_ == state::connecting) {
    // The message shows that the peer is connected although its RTU was not seen yet. The CM is not told so by
    // rdma_notify: where a disconnect follows at once it would leave its REP uncancelled, and destroying the id would
    // wait 69 s for it (measured, kernel 6.1). A lost RTU comes again when the CM resends its REP.
    on_established({});
  }
  if (state_ == state::established) {
    handler_.on_message(receive_buffer(index).first(std::min(what.bytes, settings_.receive_size)));
  }
  if (state_ == state::established) {
    if (const auto why = post_receive(index)) {
      failed(why);
    }
  }
}

void connection::failed(std::error_code why, std::span<const std::byte> private_data) {
  if (state_ == state::draining || state_ == state::closed) {
    return;
  }
  const bool expected = state_ == state::lingering;
  start_draining();
  if (!expected) {
    handler_.on_failed(why, private_data);
  }
}

void connection::close() {
  if (state_ != state::draining && state_ != state::closed) {
    start_draining();
  }
}

void connection::close_after_sends() {
  if (state_ == state::draining || state_ == state::closed || state_ == state::lingering) {
    return;
  }
  const bool sending = state_ == state::established && free_sends_.size() < settings_.sends;
  if (!sending || allow_remote_read(false)) {
    start_draining();
    return;
  }
  state_ = state::lingering;
  set_deadline(linger_limit);
}

void connection::set_deadline(std::chrono::milliseconds after) {
  deadline_.emplace(io_, after);
  deadline_->async_wait([this, alive = alive_](const boost::system::error_code& error) {
    if (!error && *alive) {
      on_deadline();
    }
  });
}

void connection::on_deadline() {
  if (std::chrono::steady_clock::now() < deadline_->expiry()) {
    return;  // it was set anew after it had fired
  }
  if (state_ == state::lingering) {
    start_draining();
  } else if (state_ == state::draining) {
    finish();
  }
}

void connection::start_draining() {
  const bool was_connected = state_ != state::made;
  state_ = state::draining;
  queued_sends_.clear();
  // Into ERR first: that is what stops the peer, and rdma_disconnect does it only in some of the CM's states.
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  // A queue pair that does not go there is not flushed, and its peer goes on reading until it is destroyed.
  hopeless_ = ibv_modify_qp(queue_pair_.get(), &attributes, IBV_QP_STATE) != 0 || hopeless_;
  if (was_connected) {
    rdma_disconnect(id_);
  }
  set_deadline(hopeless_ ? std::chrono::milliseconds{0} : settings_.drain_limit);
  finish_if_drained();
}

void connection::finish_if_drained() {
  if (state_ == state::draining && posted_ == 0 && !finish_is_due_) {
    // Not from here: the caller may be in the middle of its own work with this connection.
    finish_is_due_ = true;
    boost::asio::post(io_, [this, alive = alive_] {
      if (*alive && state_ == state::draining) {
        finish();
      }
    });
  }
}

void connection::finish() {
  state_ = state::closed;
  deadline_->cancel();
  id_->qp = nullptr;
  // Each of these may wait for the adapter or for the CM, and so would whoever else the reactor serves. Destroying the
  // queue pair also ends what did not come home: after it the adapter touches no memory of it.
  closers_.run(
      [this] {
        queue_pair_.reset();
        messages_region_.reset();
        owned_id_.reset();
      },
      [this](const std::exception_ptr&) {
        const auto lost = std::exchange(posted_, 0);
        if (lost != 0) {
          device_.work_requests().forget(*this);
        }
        completions_ = {};
        handler_.on_closed(lost);
      });
}

}  // namespace gpurdma::rdma
