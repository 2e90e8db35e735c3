// The books and the faults.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "objects.hpp"

namespace gpurdma::fake_verbs {
namespace {

state* present = nullptr;

constexpr std::array names{"rdma_create_event_channel",
                           "rdma_get_devices",
                           "rdma_create_id",
                           "rdma_set_option",
                           "rdma_bind_addr",
                           "rdma_listen",
                           "rdma_resolve_addr",
                           "rdma_resolve_route",
                           "rdma_create_qp",
                           "rdma_connect",
                           "rdma_accept",
                           "rdma_reject",
                           "rdma_disconnect",
                           "ibv_query_device",
                           "ibv_query_port",
                           "ibv_alloc_pd",
                           "ibv_create_comp_channel",
                           "ibv_create_cq",
                           "ibv_reg_mr",
                           "ibv_reg_dmabuf_mr",
                           "ibv_modify_qp",
                           "ibv_req_notify_cq",
                           "ibv_post_recv",
                           "ibv_post_send",
                           "ibv_poll_cq",
                           "ibv_get_cq_event",
                           "rdma_get_cm_event"};
static_assert(names.size() == static_cast<std::size_t>(call::count_));

const char* name_of(host at) { return at == host::server ? "server" : "client"; }

/// Whether this is the call that the fault is planned for.
bool is_due(planned_fault& p) {
  if (p.in == 0 || --p.in != 0) {
    return false;
  }
  if (p.times > 1) {
    p.times = p.times == world::for_ever ? p.times : p.times - 1;
    p.in = 1;
  }
  return true;
}

template <typename T>
void say_live(const shelf<T>& objects, std::vector<std::string>& sentences) {
  objects.each([&](const T& object) {
    sentences.push_back(std::string{"a "} + T::kind + " of the " + name_of(object.at) + " is left");
  });
}

template <typename T>
std::size_t count(const shelf<T>& objects, host at, std::string_view kind) {
  std::size_t found = 0;
  if (kind == T::kind) {
    objects.each([&](const T& object) { found += object.at == at ? 1U : 0U; });
  }
  return found;
}

}  // namespace

std::string_view name_of(call c) noexcept { return names.at(static_cast<std::size_t>(c)); }

device::device(host where) : at{where} {
  std::strncpy(&what.name[0], where == host::server ? "fake_server" : "fake_client", sizeof what.name - 1);
  what.node_type = IBV_NODE_CA;
  context.device = &what;
  context.async_fd = async_fd.get();
  context.num_comp_vectors = 1;
  context.ops.poll_cq = poll_cq;
  context.ops.req_notify_cq = req_notify_cq;
  context.ops.post_send = post_send;
  context.ops.post_recv = post_recv;
}

memory_region::~memory_region() {
  if (fd >= 0) {
    ::close(fd);
  }
}

state::state() : devices{device{host::server}, device{host::client}} {}

device* state::device_of(const ibv_context* context) {
  const auto found = std::find_if(devices.begin(), devices.end(), [&](auto& d) { return &d.context == context; });
  return found == devices.end() ? nullptr : &*found;
}

int state::fault(call which, host at) {
  auto& plan = plan_of(at);
  ++made[static_cast<std::size_t>(at)][static_cast<std::size_t>(which)];
  if (which < call::ibv_poll_cq) {
    ++plan.steps;
    if (is_due(plan.step)) {
      failed_step = name_of(which);
      return plan.step.error;
    }
  }
  auto& planned = plan.calls[static_cast<std::size_t>(which)];
  return is_due(planned) ? planned.error : 0;
}

guard::guard(purpose why) : world_{present}, why_{why} {
  if (world_ == nullptr) {
    std::abort();  // verbs are used, and there is no world to use them in
  }
  lock_ = std::unique_lock{world_->lock};
}

guard::~guard() {
  if (why_ == act) {
    ++world_->happened;
    world_->changed.notify_all();
  }
}

world::world() : state_{std::make_unique<state>()} { present = state_.get(); }
world::~world() { present = nullptr; }

void world::act_as(host who) {
  guard { } -> acting = who; }
void world::set_limits(host at, const limits& to) {
  guard { } -> device_of(at).bounds = to; }

void world::fail(call which, host at, unsigned nth, int error, unsigned times) {
  guard { } -> plan_of(at).calls[static_cast<std::size_t>(which)] = {nth, times, error}; }

void world::fail_step(host at, unsigned nth, int error) {
  const guard w;
  auto& plan = w->plan_of(at);
  plan.step = {nth, 1, error};
  plan.steps = 0;
  w->failed_step.clear();
}

unsigned world::steps(host at) const {
  return guard { guard::look } -> plan_of(at).steps;
}
std::string world::failed_step() const {
  return guard { guard::look } -> failed_step;
}

void world::complete_with(host at, work kind, unsigned nth, ibv_wc_status status) {
  guard { } -> plan_of(at).completions[static_cast<std::size_t>(kind)] = {nth, 1, status}; }

void world::never_flush(host at) {
  guard { } -> plan_of(at).never_flush = true; }
void world::hold_reads(host at) {
  guard { } -> plan_of(at).hold_reads = true; }

void world::release_reads(host at) {
  const guard w;
  w->plan_of(at).hold_reads = false;
  w->pairs.each([&](queue_pair& q) { w->progress(q); });
}

void world::withhold(rdma_cm_event_type type, host at) {
  guard { } -> plan_of(at).withheld.push_back(type); }

void world::deliver_withheld() {
  const guard w;
  for (auto& plan : w->plans) {
    plan.withheld.clear();
  }
  for (auto& event : std::exchange(w->withheld, {})) {
    w->queue_event(std::move(event));
  }
}

void world::deliver(rdma_cm_event_type type, host at, int status) {
  const guard w;
  w->ids.each([&](connection_id& id) {
    if (id.at == at && id.where >= id_state::requesting && id.known) {
      w->tell(id, type, status);
    }
  });
}

void world::wake_spuriously(host at) {
  const guard w;
  w->queues.each([&](completion_queue& q) {
    if (q.at == at) {
      w->raise(q);
    }
  });
}

void world::raise_async_event(host at, ibv_event_type type) {
  const guard w;
  auto& d = w->device_of(at);
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = 1;
  d.async_events.push_back(event);
  d.async_fd.add();
}

std::vector<std::string> world::live() const {
  const guard w{guard::look};
  std::vector<std::string> sentences;
  say_live(w->domains, sentences);
  say_live(w->regions, sentences);
  say_live(w->channels, sentences);
  say_live(w->queues, sentences);
  say_live(w->pairs, sentences);
  say_live(w->event_channels, sentences);
  say_live(w->ids, sentences);
  for (std::size_t i = 0; i < w->fetched.size(); ++i) {
    sentences.emplace_back("an event of rdma_cm is not acknowledged");
  }
  for (std::size_t i = 0; i < w->device_lists; ++i) {
    sentences.emplace_back("a list of devices is left");
  }
  return sentences;
}

std::size_t world::live(host at, std::string_view kind) const {
  const guard w{guard::look};
  return count(w->domains, at, kind) + count(w->regions, at, kind) + count(w->channels, at, kind) +
         count(w->queues, at, kind) + count(w->pairs, at, kind) + count(w->event_channels, at, kind) +
         count(w->ids, at, kind);
}

std::vector<std::string> world::violations() const {
  return guard { guard::look } -> violations;
}
std::vector<std::string> world::take_violations() {
  return std::exchange(guard {} -> violations, {});
}
std::vector<registration> world::registrations() const {
  return guard { guard::look } -> registrations;
}

unsigned world::calls(call which, host at) const {
  return guard { guard::look } -> made[static_cast<std::size_t>(at)][static_cast<std::size_t>(which)];
}

bool world::listening() const {
  return guard {
    guard::look
    } -> ids.find_if([](const auto& id) { return id.where == id_state::listening; }) != nullptr;
}

std::size_t world::reads_held() const {
  const guard w{guard::look};
  std::size_t held = 0;
  w->pairs.each([&](const queue_pair& q) {
    held += static_cast<std::size_t>(
        std::count_if(q.sends.begin(), q.sends.end(), [](const auto& s) { return s.kind == work::read; }));
  });
  return held;
}

bool world::wait_until(const std::function<bool()>& done) const {
  // `done` asks this world, which takes the lock: what happens between asking and waiting is caught by the count.
  constexpr std::chrono::seconds most{10};
  const auto until = std::chrono::steady_clock::now() + most;
  for (;;) {
    std::unique_lock lock{state_->lock};
    const auto before = state_->happened;
    lock.unlock();
    if (done()) {
      return true;
    }
    lock.lock();
    if (!state_->changed.wait_until(lock, until, [&] { return state_->happened != before; })) {
      return false;
    }
  }
}

void world::poke() { const guard w; }

}  // namespace gpurdma::fake_verbs
