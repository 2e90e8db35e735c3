#pragma once

// The inside of fake_verbs: its objects and what it knows of them. Everything under one lock.

#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "fake_verbs.hpp"

namespace gpurdma::fake_verbs {

/// A descriptor that is readable while events wait.
class event_fd {
 public:
  event_fd() : fd_{eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)} {}
  event_fd(const event_fd&) = delete;
  event_fd& operator=(const event_fd&) = delete;
  ~event_fd() { ::close(fd_); }
  [[nodiscard]] int get() const noexcept { return fd_; }
  void add() const { eventfd_write(fd_, 1); }
  /// False, with errno, where there is none.
  [[nodiscard]] bool take() const {
    eventfd_t one = 0;
    return eventfd_read(fd_, &one) == 0;
  }

 private:
  int fd_;
};

struct device final {
  explicit device(host where);
  host at;
  ibv_device what{};
  ibv_context context{};
  event_fd async_fd;
  std::deque<ibv_async_event> async_events;
  limits bounds;
};

struct protection_domain final : ibv_pd {
  static constexpr const char* kind = "protection domain";
  host at{};
};

struct memory_region final : ibv_mr {
  static constexpr const char* kind = "memory region";
  ~memory_region();
  host at{};
  unsigned access = 0;
  std::uint64_t iova = 0;
  int fd = -1;  ///< a duplicate, of a dma-buf
  std::uint64_t offset = 0;
};

struct completion_queue;
struct completion_channel final : ibv_comp_channel {
  static constexpr const char* kind = "completion channel";
  host at{};
  event_fd events;
  std::deque<completion_queue*> queues;  ///< that have an event
};

struct cq_entry {
  ibv_wc what{};
  std::uint32_t qp = 0;
  work kind{};
};

struct completion_queue final : ibv_cq {
  static constexpr const char* kind = "completion queue";
  host at{};
  std::deque<cq_entry> entries;
  bool armed = false;
  unsigned unacknowledged = 0;
};

struct posted_work {
  std::uint64_t wr_id = 0;
  work kind{};
  ibv_sge sge{};
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
};

struct connection_id;
struct queue_pair final : ibv_qp {
  static constexpr const char* kind = "queue pair";
  host at{};
  connection_id* id = nullptr;
  std::deque<posted_work> receives;
  std::deque<posted_work> sends;
  unsigned access = 0;
  std::uint32_t remote = 0;      ///< number of the peer's, once connected
  std::uint32_t sends_used = 0;  ///< posted, and not polled yet
  std::uint32_t receives_used = 0;
  ibv_qp_cap bounds{};
};

struct cm_event final : rdma_cm_event {
  static constexpr const char* kind = "event";
  std::vector<std::byte> data;
};

struct event_channel final : rdma_event_channel {
  static constexpr const char* kind = "event channel";
  host at{};
  event_fd ready;
  std::deque<std::unique_ptr<cm_event>> queue;
};

enum class id_state {
  idle,
  bound,
  listening,
  resolved,
  routed,
  requesting,  ///< sent REQ
  requested,   ///< got REQ
  accepted,    ///< sent REP
  connected,
  over,
};

struct connection_id final : rdma_cm_id {
  static constexpr const char* kind = "connection id";
  host at{};
  id_state where = id_state::idle;
  connection_id* listener = nullptr;
  connection_id* peer = nullptr;
  queue_pair* pair = nullptr;
  unsigned unacknowledged = 0;
  bool left = false;  ///< it disconnected
  bool known = true;  ///< the program has it: its request to connect was fetched
};

/// The objects of a kind.
template <typename T>
class shelf {
 public:
  T& add(std::unique_ptr<T> made = std::make_unique<T>()) {
    auto& object = *made;
    objects_.emplace(&object, std::move(made));
    return object;
  }
  template <typename Public>
  [[nodiscard]] T* find(const Public* object) const {
    const auto found = objects_.find(static_cast<const T*>(object));
    return found == objects_.end() ? nullptr : found->second.get();
  }
  void remove(const T& object) { objects_.erase(&object); }
  [[nodiscard]] std::size_t size() const { return objects_.size(); }
  template <typename F>
  void each(F f) const {
    for (const auto& [key, object] : objects_) {
      f(*object);
    }
  }
  template <typename F>
  [[nodiscard]] T* find_if(F f) const {
    for (const auto& [key, object] : objects_) {
      if (f(*object)) {
        return object.get();
      }
    }
    return nullptr;
  }

 private:
  std::map<const T*, std::unique_ptr<T>> objects_;
};

struct planned_fault {
  unsigned in = 0;  ///< calls from now, 1 is the next; 0 is none
  unsigned times = 0;
  int error = 0;
};

struct faults {
  std::array<planned_fault, static_cast<std::size_t>(call::count_)> calls;
  planned_fault step;
  unsigned steps = 0;
  std::array<planned_fault, 3> completions;  ///< by work
  bool never_flush = false;
  bool hold_reads = false;
  std::vector<rdma_cm_event_type> withheld;
};

struct state {
  state();

  mutable std::mutex lock;
  mutable std::condition_variable changed;
  std::array<device, 2> devices;
  std::array<faults, 2> plans;
  std::array<std::array<unsigned, static_cast<std::size_t>(call::count_)>, 2> made{};
  std::string failed_step;
  host acting = host::server;
  std::vector<std::string> violations;
  std::vector<registration> registrations;
  std::vector<std::unique_ptr<cm_event>> withheld;
  std::uint32_t last_number = 0;
  std::uint64_t happened = 0;  ///< counts calls, for who waits for the next
  std::size_t device_lists = 0;

  shelf<protection_domain> domains;
  shelf<memory_region> regions;
  shelf<completion_channel> channels;
  shelf<completion_queue> queues;
  shelf<queue_pair> pairs;
  shelf<event_channel> event_channels;
  shelf<connection_id> ids;
  shelf<cm_event> fetched;

  [[nodiscard]] device& device_of(host at) { return devices[static_cast<std::size_t>(at)]; }
  [[nodiscard]] faults& plan_of(host at) { return plans[static_cast<std::size_t>(at)]; }
  [[nodiscard]] device* device_of(const ibv_context* context);

  /// Counts a call; the error it is to fail with, or 0.
  [[nodiscard]] int fault(call which, host at);
  void violation(std::string what) { violations.push_back(std::move(what)); }

  // the data path
  [[nodiscard]] queue_pair* pair_of(std::uint32_t number) const;
  [[nodiscard]] memory_region* region_of(host at, std::uint32_t key) const;
  void enter_error(queue_pair& q);
  void progress(queue_pair& q);
  /// Progress of whoever sends to `q`.
  void progress_of_peer(queue_pair& q);
  /// Of READs under way from `q`, which may be read no more.
  void end_reads_of_peer(queue_pair& q);
  void complete(queue_pair& q, const posted_work& w, ibv_wc_status status, std::uint32_t bytes = 0);
  void raise(completion_queue& q);

  // the connection manager
  void queue_event(std::unique_ptr<cm_event> event);
  void tell(connection_id& id, rdma_cm_event_type type, int status = 0);
  void tell(connection_id& id, rdma_cm_event_type type, int status, const rdma_conn_param& param, std::size_t room);
  /// The id leaves its peer, in whatever state they are.
  void leave(connection_id& id);
  /// Ends what the program does not use any more.
  void remove_id(connection_id& id);
  /// The reply came: librdmacm brings the queue pair to RTS and sends RTU when the program fetches the event.
  void finish_connecting(connection_id& id, cm_event& event);

 private:
  bool send_one(queue_pair& q, queue_pair& peer);
  void read_one(queue_pair& q, queue_pair& peer);
  [[nodiscard]] ibv_wc_status spoiled(queue_pair& q, work kind);
  /// Those that wait go with the id, and so do requests to connect that nobody will take.
  void forget_events(connection_id& id);
};

/// Brings a queue pair to RTS.
void join(queue_pair& q, const queue_pair& peer);

/// Locks the present world. Unless it only looks, it wakes those who wait for something to happen there.
class guard {
 public:
  enum purpose { act, look };
  explicit guard(purpose why = act);
  guard(const guard&) = delete;
  guard& operator=(const guard&) = delete;
  ~guard();
  state* operator->() const noexcept { return world_; }
  state& operator*() const noexcept { return *world_; }
  std::unique_lock<std::mutex>& lock() noexcept { return lock_; }

 private:
  state* world_;
  purpose why_;
  std::unique_lock<std::mutex> lock_;
};

/// The two ways to report a failure through errno.
[[nodiscard]] inline int minus_one(int error) {
  errno = error;
  return -1;
}
[[nodiscard]] inline std::nullptr_t null(int error) {
  errno = error;
  return nullptr;
}
/// The third: errno then says nothing.
[[nodiscard]] inline int number(int error) {
  errno = 0;
  return error;
}

// Of the data path, for the contexts.
int poll_cq(ibv_cq* cq, int most, ibv_wc* wcs);
int req_notify_cq(ibv_cq* cq, int solicited_only);
int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);

}  // namespace gpurdma::fake_verbs
