#include "daemon/service_notifier.hpp"

#include <systemd/sd-daemon.h>

#include <algorithm>
#include <ctime>

namespace gpurdma::daemon::service_notifier {
namespace {

// Nobody can be told that telling failed; a manager that did not hear acts by its own time limits.
void tell(const std::string& what) { sd_notify(0, what.c_str()); }

}  // namespace

void ready() { tell("READY=1"); }

void reloading() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto usec = std::chrono::seconds{now.tv_sec} + std::chrono::nanoseconds{now.tv_nsec};
  tell("RELOADING=1\nMONOTONIC_USEC=" +
       std::to_string(std::chrono::duration_cast<std::chrono::microseconds>(usec).count()));
}

void stopping() { tell("STOPPING=1"); }

void status(std::string_view line) {
  std::string text{line};
  std::replace(text.begin(), text.end(), '\n', ' ');
  tell("STATUS=" + text);
}

void extend_timeout(std::chrono::microseconds longer) { tell("EXTEND_TIMEOUT_USEC=" + std::to_string(longer.count())); }

void feed_watchdog() { tell("WATCHDOG=1"); }

std::chrono::microseconds watchdog_time() noexcept {
  std::uint64_t usec = 0;
  return std::chrono::microseconds{sd_watchdog_enabled(0, &usec) > 0 ? static_cast<std::int64_t>(usec) : 0};
}

}  // namespace gpurdma::daemon::service_notifier
