#include "daemon/event.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>

namespace gpurdma::daemon {
namespace {

struct description {
  event_id id;
  spdlog::level::level_enum level;
  std::string_view name;
  std::string_view sentence;
};

constexpr auto debug = spdlog::level::debug;
constexpr auto info = spdlog::level::info;
constexpr auto warning = spdlog::level::warn;
constexpr auto error = spdlog::level::err;

// In the order of event_id.
constexpr std::array descriptions{
    description{event_id::server_starting, info, "server_starting", "gpurdma-server starts"},
    description{event_id::buffer_loading, info, "buffer_loading", "a buffer is being loaded"},
    description{event_id::buffer_loaded, info, "buffer_loaded", "a buffer is loaded"},
    description{event_id::buffer_registered, info, "buffer_registered", "a buffer can be read through a device"},
    description{event_id::buffer_staged, warning, "buffer_staged",
                "a copy in host memory is served, not the GPU's memory"},
    description{event_id::buffer_verified, info, "buffer_verified", "a buffer holds what was loaded"},
    description{event_id::buffer_damaged, error, "buffer_damaged", "a buffer does not hold what was loaded"},
    description{event_id::server_ready, info, "server_ready", "the server is ready"},
    description{event_id::server_stopping, info, "server_stopping", "the server stops"},
    description{event_id::server_stopped, info, "server_stopped", "the server has stopped"},
    description{event_id::start_failed, error, "start_failed", "the server cannot start"},
    description{event_id::client_connected, info, "client_connected", "a client connected"},
    description{event_id::client_refused, warning, "client_refused", "a request to connect was refused"},
    description{event_id::client_left, info, "client_left", "a client left"},
    description{event_id::client_lost, warning, "client_lost", "the connection to a client was lost"},
    description{event_id::client_dropped, warning, "client_dropped", "a client was dropped"},
    description{event_id::lease_granted, debug, "lease_granted", "a lease was granted"},
    description{event_id::lease_ended, debug, "lease_ended", "a lease ended"},
    description{event_id::request_refused, info, "request_refused", "a request was refused"},
    description{event_id::work_requests_lost, error, "work_requests_lost",
                "posted work requests did not complete before the deadline"},
    description{event_id::device_event, warning, "device_event", "an RDMA device reported an event"},
    description{event_id::gpu_placed, info, "gpu_placed", "a GPU is near the device that serves it"},
    description{event_id::gpu_is_far, warning, "gpu_is_far", "a GPU is far from the device that serves it"},
    description{event_id::gpu_lost, error, "gpu_lost", "a GPU failed; its buffers are out of service"},
};

const description& describe(event_id id) noexcept { return descriptions.at(static_cast<std::size_t>(id)); }

/// The value itself where it is a plain word, else in quotes with the dangerous characters escaped.
std::string presentable(std::string_view value) {
  const auto is_plain = [](char c) { return c > ' ' && c < 0x7F && c != '"' && c != '=' && c != '\\'; };
  if (!value.empty() && std::all_of(value.begin(), value.end(), is_plain)) {
    return std::string{value};
  }
  std::string shown = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') {
      shown += '\\';
      shown += c;
    } else if ((c >= 0 && c < ' ') || c == 0x7F) {
      shown += '?';
    } else {
      shown += c;
    }
  }
  return shown + '"';
}

spdlog::logger& logger() {
  static spdlog::logger instance = [] {
    spdlog::logger made{"gpurdma-server", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
    made.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made.flush_on(spdlog::level::trace);
    return made;
  }();
  return instance;
}

}  // namespace

void set_log_level(log_level level) {
  constexpr std::array levels{debug, info, warning, error};
  logger().set_level(levels.at(static_cast<std::size_t>(level)));
}

void emit(event_id id, std::initializer_list<field> fields) {
  const auto& what = describe(id);
  if (!logger().should_log(what.level)) {
    return;
  }
  std::string line{what.name};
  line += ": ";
  line += what.sentence;
  for (const auto& f : fields) {
    line += ' ';
    line += f.name;
    line += '=';
    line += presentable(f.value);
  }
  logger().log(what.level, line);
}

std::string_view name_of(event_id id) noexcept { return describe(id).name; }

}  // namespace gpurdma::daemon
