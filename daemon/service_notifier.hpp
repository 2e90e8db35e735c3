#pragma once

// What the service manager is told: sd_notify(3). Without a manager ($NOTIFY_SOCKET) nothing happens.

#include <chrono>
#include <string>
#include <string_view>

namespace gpurdma::daemon {

namespace service_notifier {

/// Every buffer is loaded and registered, every address listened on; also the end of a reload.
void ready();
/// A reload begins, now on CLOCK_MONOTONIC; ready() ends it.
void reloading();
void stopping();
/// One line for `systemctl status`.
void status(std::string_view line);
/// What goes on may take `longer` from now on; to be repeated while it does.
void extend_timeout(std::chrono::microseconds longer);
void feed_watchdog();

/// The time within which the manager wants to hear feed_watchdog(); 0 where it does not.
[[nodiscard]] std::chrono::microseconds watchdog_time() noexcept;

}  // namespace service_notifier

}  // namespace gpurdma::daemon
