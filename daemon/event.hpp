#pragma once

// What happened, with the fields a person greps for. An event is emitted once, where it is handled.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "daemon/config.hpp"

namespace gpurdma::daemon {

enum class event_id {
  server_starting,
  buffer_loading,
  buffer_loaded,
  buffer_registered,
  buffer_staged,
  buffer_verified,
  buffer_damaged,
  buffer_failed,
  version_retired,
  version_freed,
  server_ready,
  server_stopping,
  server_stopped,
  start_failed,
  reload_started,
  reload_finished,
  reload_failed,
  restart_needed,
  client_connected,
  client_refused,
  client_left,
  client_lost,
  client_dropped,
  lease_granted,
  lease_ended,
  request_refused,
  work_requests_lost,
  device_event,
  device_added,
  device_lost,
  gpu_placed,
  gpu_is_far,
  gpu_lost,
  control_command,
  control_refused,
  self_check_failed,
};

/// A name, and a value of a type that a person reads: text, number, error.
struct field {
  std::string_view name;
  std::string value;

  field(std::string_view n, std::string v) : name{n}, value{std::move(v)} {}
  field(std::string_view n, std::string_view v) : name{n}, value{v} {}
  field(std::string_view n, const char* v) : name{n}, value{v} {}
  template <typename T>
  requires std::is_arithmetic_v<T> field(std::string_view n, T v) : name{n}, value{std::to_string(v)} {}
};

void set_log_level(log_level level);

/// Writes the event to the log (daemon/logging): "NAME: sentence field=value …". Nothing in a value can forge a line or
/// a field. The errors that a peer can cause at will are limited by its address, the field `peer`. Reactor thread only.
void emit(event_id id, std::initializer_list<field> fields);

/// Forgets how much each peer has logged.
void forget_peers();

/// The stable name of an event, as it stands in the log.
[[nodiscard]] std::string_view name_of(event_id id) noexcept;

}  // namespace gpurdma::daemon
