#include "rdma/completion_queue.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/post.hpp>
#include <cassert>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "rdma/error.hpp"

namespace gpurdma::rdma {

struct shared_queue {
  completion_queue_handle handle;
  std::uint32_t capacity = 0;
  std::uint32_t reserved = 0;
  unsigned unacknowledged = 0;  ///< events that ibv_destroy_cq would wait for
  bool poll_is_due = false;     ///< more is to be polled, after others had their turn
  bool lost = false;            ///< it failed: nobody new gets room in it
  std::vector<work_owner*> owners;

  shared_queue() = default;
  shared_queue(const shared_queue&) = delete;
  shared_queue& operator=(const shared_queue&) = delete;
  ~shared_queue() {
    if (unacknowledged != 0) {
      ibv_ack_cq_events(handle.get(), unacknowledged);
    }
  }
};

completion_reservation::completion_reservation(shared_queue& q, std::uint32_t entries, work_owner& owner)
    : queue_{&q}, entries_{entries}, owner_{&owner} {
  q.owners.push_back(&owner);
  q.reserved += entries;
}

completion_reservation::completion_reservation(completion_reservation&& other) noexcept
    : queue_{std::exchange(other.queue_, nullptr)}, entries_{other.entries_}, owner_{other.owner_} {}

completion_reservation& completion_reservation::operator=(completion_reservation&& other) noexcept {
  give_back();
  queue_ = std::exchange(other.queue_, nullptr);
  entries_ = other.entries_;
  owner_ = other.owner_;
  return *this;
}

completion_reservation::~completion_reservation() { give_back(); }

void completion_reservation::give_back() noexcept {
  if (queue_ != nullptr) {
    queue_->reserved -= entries_;
    queue_->owners.erase(std::find(queue_->owners.begin(), queue_->owners.end(), owner_));
  }
}

ibv_cq* completion_reservation::queue() const noexcept { return queue_->handle.get(); }

completion_queues::completion_queues(boost::asio::io_context& io, ibv_context& context, std::uint32_t max_entries)
    : io_{io}, context_{context}, max_entries_{max_entries}, channel_{ibv_create_comp_channel(&context)} {
  if (!channel_) {
    fail(last_error(), std::string{"cannot create a completion channel on "} + ibv_get_device_name(context.device));
  }
  set_non_blocking(channel_->fd);
  watch_ = std::make_unique<fd_watch>(io, channel_->fd, [this] { on_readable(); });
}

completion_queues::~completion_queues() {
  assert(std::all_of(queues_.begin(), queues_.end(), [](const auto& q) { return q->reserved == 0; }));
  *alive_ = false;
}

void completion_queues::close() { watch_->stop(); }

completion_reservation completion_queues::reserve(std::uint32_t entries, work_owner& owner) {
  const auto room = std::find_if(queues_.begin(), queues_.end(),
                                 [&](const auto& q) { return !q->lost && q->capacity - q->reserved >= entries; });
  if (room != queues_.end()) {
    return {**room, entries, owner};
  }
  // Entries cost the provider memory, so queues are made as clients come, of a size that few of them fill.
  constexpr std::uint32_t usual_capacity = 4096;
  auto added = std::make_unique<shared_queue>();
  const auto wanted = std::min(std::max(usual_capacity, entries), max_entries_);
  if (entries > wanted) {
    fail(std::make_error_code(std::errc::no_buffer_space),
         std::string{ibv_get_device_name(context_.device)} + " has too small completion queues");
  }
  added->handle.reset(ibv_create_cq(&context_, static_cast<int>(wanted), added.get(), channel_.get(), 0));
  const auto why = added->handle ? check_number(ibv_req_notify_cq(added->handle.get(), 0)) : last_error();
  if (why) {
    fail(why, std::string{"cannot create a completion queue on "} + ibv_get_device_name(context_.device));
  }
  added->capacity = wanted;
  queues_.push_back(std::move(added));
  return {*queues_.back(), entries, owner};
}

void completion_queues::on_readable() {
  // A queue has at most one event here, for it is armed again only after its event was taken.
  ibv_cq* raw = nullptr;
  void* context = nullptr;
  // What is left makes the channel readable again, after others had their turn.
  constexpr std::size_t most = 16;
  const auto budget = std::min(most, queues_.size());
  for (std::size_t i = 0; i < budget; ++i) {
    if (ibv_get_cq_event(channel_.get(), &raw, &context) != 0) {
      if (errno == EIO) {
        watch_->stop();  // the device is gone: its channel would be readable for ever
      }
      return;
    }
    auto& q = *static_cast<shared_queue*>(context);
    // Acknowledging takes a lock, so it is done in batches; and the rest before the queue is destroyed.
    constexpr unsigned batch = 64;
    if (++q.unacknowledged == batch) {
      ibv_ack_cq_events(raw, std::exchange(q.unacknowledged, 0));
    }
    arm_and_poll(q);
  }
}

void completion_queues::arm_and_poll(shared_queue& q) {
  // Armed first and polled then: a completion that arrives in between raises an event, instead of being missed.
  const auto why = check_number(ibv_req_notify_cq(q.handle.get(), 0));
  if (!q.poll_is_due) {
    poll(q);
  }
  if (why) {
    lose(q, why);
  }
}

void completion_queues::lose(shared_queue& q, std::error_code why) {
  // Nothing wakes us for it any more, so whoever waits for a completion in it would wait for ever.
  if (!std::exchange(q.lost, true)) {
    for (auto* const owner : std::vector{q.owners}) {
      owner->on_queue_lost(why);
    }
  }
}

void completion_queues::poll(shared_queue& q) {
  constexpr int batch = 32;
  constexpr int budget = 256;  // completions before others get their turn
  std::array<ibv_wc, batch> wcs{};
  for (int done = 0; done < budget;) {
    const int count = ibv_poll_cq(q.handle.get(), batch, wcs.data());
    if (count < 0) {
      lose(q, std::make_error_code(std::errc::io_error));
      return;
    }
    for (const auto& wc : std::span{wcs}.first(static_cast<std::size_t>(count))) {
      if (const auto request = work_requests_.take(wc.wr_id)) {
        request->owner->on_completion(request->kind, request->index, {wc.status, wc.byte_len});
      }
    }
    // Not `count < batch`: what the handlers posted may be done already, and another poll costs less than an event.
    if (count <= 0) {
      return;
    }
    done += count;
  }
  q.poll_is_due = true;
  boost::asio::post(io_, [this, &q, alive = alive_] {
    if (*alive) {
      q.poll_is_due = false;
      poll(q);
    }
  });
}

}  // namespace gpurdma::rdma
