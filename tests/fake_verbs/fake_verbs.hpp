#pragma once

// libibverbs and librdmacm as far as gpurdma calls them, without a device: two hosts in one process, a wire between
// them, strict books of every object, and faults on demand. Linked into a test program as objects, so that these
// definitions are taken instead of the libraries'.
//
// It is stricter than an adapter: what a library would answer with a crash, a leak or waiting for ever is a violation,
// with a sentence. Where adapters differ it takes the one that is harder to live with: completions of a destroyed
// queue pair stay in the queue, a completion that is there already when a queue is armed raises no event, a number
// that is returned as an error is not in errno.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpurdma::fake_verbs {

enum class host : std::size_t { server, client };

/// An address of each host's only device, to bind and to connect to.
inline constexpr const char* server_address = "192.0.2.1";
inline constexpr const char* client_address = "192.0.2.2";

/// The calls that can be made to fail. From poll_cq on they are no steps: they ask, and make nothing.
enum class call : std::size_t {
  rdma_create_event_channel,
  rdma_get_devices,
  rdma_create_id,
  rdma_set_option,
  rdma_bind_addr,
  rdma_listen,
  rdma_resolve_addr,
  rdma_resolve_route,
  rdma_create_qp,
  rdma_connect,
  rdma_accept,
  rdma_reject,
  rdma_disconnect,
  ibv_query_device,
  ibv_query_port,
  ibv_alloc_pd,
  ibv_create_comp_channel,
  ibv_create_cq,
  ibv_reg_mr,
  ibv_reg_dmabuf_mr,
  ibv_modify_qp,
  ibv_req_notify_cq,
  ibv_post_recv,
  ibv_post_send,
  ibv_poll_cq,
  ibv_get_cq_event,
  rdma_get_cm_event,
  count_,
};
[[nodiscard]] std::string_view name_of(call c) noexcept;

enum class work : std::size_t { receive, send, read };

/// What a call to register memory asked for.
struct registration {
  host at{};
  call how{};  ///< ibv_reg_mr, whatever variant of it, or ibv_reg_dmabuf_mr
  const ibv_pd* domain = nullptr;
  std::uint64_t address = 0;  ///< of ibv_reg_mr
  std::size_t length = 0;
  std::uint64_t iova = 0;
  int fd = -1;               ///< of ibv_reg_dmabuf_mr
  std::uint64_t offset = 0;  ///< of ibv_reg_dmabuf_mr
  unsigned access = 0;
  int error = 0;  ///< that it was answered with
};

struct limits {
  int completion_queue_entries = 32767;
  int work_requests = 4096;
  int reads = 16;
  std::uint32_t message_size = 8U << 20U;
};

struct state;

/// While one lives, it is what the libraries' functions act on. All of it may be used by several threads.
class world {
 public:
  world();
  world(const world&) = delete;
  world& operator=(const world&) = delete;
  ~world();

  /// Of this host are the calls that name no object of one: rdma_create_event_channel and rdma_get_devices.
  void act_as(host who);
  void set_limits(host at, const limits& to);

  // --- faults; counts begin with the call that sets the fault ---

  static constexpr unsigned for_ever = ~0U;
  /// The `nth` call (1 is the next) and `times - 1` more fail with `error`; ibv_poll_cq then returns -1.
  void fail(call which, host at, unsigned nth, int error, unsigned times = 1);
  /// The `nth` step of any kind fails.
  void fail_step(host at, unsigned nth, int error);
  /// Steps made since fail_step().
  [[nodiscard]] unsigned steps(host at) const;
  /// The name of the step that failed, or nothing.
  [[nodiscard]] std::string failed_step() const;
  /// The `nth` work request of this kind that would complete well completes so, and its queue pair is in error.
  void complete_with(host at, work kind, unsigned nth, ibv_wc_status status);
  /// A queue pair in error keeps what was posted.
  void never_flush(host at);
  /// READs that `at` posts stay under way, until release_reads or an error.
  void hold_reads(host at);
  void release_reads(host at);
  /// Events of this type are kept from `at` until deliver_withheld.
  void withhold(rdma_cm_event_type type, host at);
  void deliver_withheld();
  /// Queues an event of this type for each id of a connection at `at`, due or not.
  void deliver(rdma_cm_event_type type, host at, int status = 0);
  /// Queues an event for each completion queue, with nothing to poll.
  void wake_spuriously(host at);
  void raise_async_event(host at, ibv_event_type type);

  // --- what happened ---

  /// One sentence for each object that lives.
  [[nodiscard]] std::vector<std::string> live() const;
  [[nodiscard]] std::vector<std::string> violations() const;
  /// The same, and forgets them.
  [[nodiscard]] std::vector<std::string> take_violations();
  [[nodiscard]] std::vector<registration> registrations() const;
  [[nodiscard]] unsigned calls(call which, host at) const;
  [[nodiscard]] bool listening() const;
  /// Objects of a kind ("queue pair") that live at `at`.
  [[nodiscard]] std::size_t live(host at, std::string_view kind) const;
  /// READs that are under way.
  [[nodiscard]] std::size_t reads_held() const;

  /// Waits until `done`, which is asked after each call to the libraries and after poke(). False after ten seconds.
  [[nodiscard]] bool wait_until(const std::function<bool()>& done) const;
  void poke();

 private:
  std::unique_ptr<state> state_;
};

}  // namespace gpurdma::fake_verbs
