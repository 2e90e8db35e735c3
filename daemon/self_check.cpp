#include "daemon/self_check.hpp"

#include <utility>

#include "daemon/event.hpp"

namespace gpurdma::daemon {

self_check::self_check(boost::asio::io_context& io, std::chrono::microseconds period, std::vector<group> groups,
                       std::function<void()> healthy)
    : period_{period}, healthy_{std::move(healthy)}, timer_{io} {
  for (auto& g : groups) {
    groups_.push_back(std::make_shared<state>(state{.of = std::move(g)}));
  }
  look();
}

self_check::~self_check() = default;

void self_check::stop() { timer_.cancel(); }

void self_check::wait() {
  timer_.expires_after(period_);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      look();
    }
  });
}

void self_check::look() {
  bool all = true;
  for (const auto& s : groups_) {
    all = is_healthy(*s) && all;
    if (!s->asked) {
      s->asked = true;
      s->of.threads.run([] {}, [s](const std::exception_ptr&) { s->asked = false; });
    }
    s->jobs_ended = s->of.threads.jobs_ended();
  }
  if (all) {
    healthy_();
  }
  wait();
}

bool self_check::is_healthy(state& s) {
  if (!s.asked || s.of.threads.jobs_ended() != s.jobs_ended) {
    return true;
  }
  emit(event_id::self_check_failed, {{"workers", s.of.name}, {"why", "no job of theirs ended in time"}});
  return false;
}

}  // namespace gpurdma::daemon
