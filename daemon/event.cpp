#include "daemon/event.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

#include "daemon/event_limit.hpp"
#include "daemon/logging.hpp"

namespace gpurdma::daemon {
namespace {

using enum log_level;

struct description {
  event_id id;
  std::string_view name;
  std::string_view message_id;  ///< systemd's, made once by `systemd-id128 new` and never changed
  log_level level;
  bool limited;  ///< a peer can cause it as often as it likes
  std::string_view sentence;
};

// In the order of event_id.
constexpr description descriptions[] = {
    {event_id::server_starting, "server_starting", "f23e3cea8f41458b9cba5fee938fb5ac", info, false,
     "gpurdma-server starts"},
    {event_id::buffer_loading, "buffer_loading", "32c79ff3a20c4ddb8fe7e3eb52af1293", info, false,
     "a buffer is being loaded"},
    {event_id::buffer_loaded, "buffer_loaded", "4538edabff3f469588475f42300122d6", info, false, "a buffer is loaded"},
    {event_id::buffer_registered, "buffer_registered", "eab7c89329fb40e1a6e9904942c0ad16", info, false,
     "a buffer can be read through a device"},
    {event_id::buffer_staged, "buffer_staged", "2916871c9e974ba4a6fad9aa8dd8ce21", warning, false,
     "a copy in host memory is served, not the GPU's memory"},
    {event_id::buffer_verified, "buffer_verified", "4b149d69e8a84b3f99f9def84ecc21c4", info, false,
     "a buffer holds what was loaded"},
    {event_id::buffer_damaged, "buffer_damaged", "8558a3fc9d9946ab8f1b484f8565820e", error, false,
     "a buffer does not hold what was loaded"},
    {event_id::buffer_failed, "buffer_failed", "521bbde744c740a291cea7c2264f54cd", error, false,
     "a buffer could not be made or replaced"},
    {event_id::version_retired, "version_retired", "69c5fc89772d4e0fa7de777662577192", info, false,
     "a version of a buffer is not lent any more"},
    {event_id::version_freed, "version_freed", "4293edd46def44279e8d687005380e81", info, false,
     "the memory of a retired version is free"},
    {event_id::server_ready, "server_ready", "c6c81da1789840e099fc1800358dae25", info, false, "the server is ready"},
    {event_id::server_stopping, "server_stopping", "53a093ff1e5c450b9f5c66e79b20ae87", info, false, "the server stops"},
    {event_id::server_stopped, "server_stopped", "f4d9e16bb48f4c94b9e50e1913c9cc7b", info, false,
     "the server has stopped"},
    {event_id::start_failed, "start_failed", "f6858510778846ec95145adce9c5f9f2", error, false,
     "the server cannot start"},
    {event_id::reload_started, "reload_started", "e99986b4bcf94197a4a57ad82abee171", info, false,
     "the configuration is read again"},
    {event_id::reload_finished, "reload_finished", "596ddace446d459cbd99785c201784ac", info, false,
     "the new configuration is in force"},
    {event_id::reload_failed, "reload_failed", "309a2e9e896d429a800918a22726646f", error, false,
     "the configuration was not, or not wholly, reloaded"},
    {event_id::restart_needed, "restart_needed", "f4d4de9dd01e4723b322cceb19eedd2f", warning, false,
     "a changed setting waits for a restart"},
    {event_id::client_connected, "client_connected", "90efcbc58854449a9c0f56703c5506a8", info, false,
     "a client connected"},
    {event_id::client_refused, "client_refused", "6c0047f6606d40c387f53da589d902e5", warning, true,
     "a request to connect was refused"},
    {event_id::client_left, "client_left", "896eef1aa9a5470e976a82feab772ac4", info, false, "a client left"},
    {event_id::client_lost, "client_lost", "aa09c02478224c5fbe337f111a14d4a3", warning, true,
     "the connection to a client was lost"},
    {event_id::client_dropped, "client_dropped", "51c34d0a453740eabef6807d5bb14ae3", warning, true,
     "a client was dropped"},
    {event_id::lease_granted, "lease_granted", "c263f29b935a470e81e962251617a6db", debug, false, "a lease was granted"},
    {event_id::lease_ended, "lease_ended", "c337311cb78f4c8f988bee1b97e4358e", debug, false, "a lease ended"},
    {event_id::request_refused, "request_refused", "3294bcb1d19548f781794929cb88c790", info, true,
     "a request was refused"},
    {event_id::work_requests_lost, "work_requests_lost", "f37c428b552342f38c11b2db9992983a", error, false,
     "posted work requests did not complete before the deadline"},
    {event_id::device_event, "device_event", "74685548e75e4bbd9ac52944db1cb00f", warning, false,
     "an RDMA device reported an event"},
    {event_id::device_added, "device_added", "a11b6b6d3fba43d99bee753d9b5c4f38", info, false, "an RDMA device is used"},
    {event_id::device_lost, "device_lost", "57552b2046e74140bc9ea403a1a53d32", error, false, "an RDMA device is gone"},
    {event_id::gpu_placed, "gpu_placed", "8d525a10264d4e16b6d24dbca962a033", info, false,
     "a GPU is near the device that serves it"},
    {event_id::gpu_is_far, "gpu_is_far", "f0b2169e625f4940a9568d5d978bf022", warning, false,
     "a GPU is far from the device that serves it"},
    {event_id::gpu_lost, "gpu_lost", "ad9d195812c64008a6519fd5f930dad7", error, false,
     "a GPU failed; its buffers are out of service"},
    {event_id::control_command, "control_command", "dc0f04bbced842c68c0a864b6caf6012", info, false,
     "an operator asked for something"},
    {event_id::control_refused, "control_refused", "c4f1d7dec56144c3ac10a41047587c62", warning, false,
     "a call on the control socket was refused"},
    {event_id::self_check_failed, "self_check_failed", "e04f82b5a4f24c97a1eedd73e96159f7", error, false,
     "the server does not get its own work done"},
};

const description& describe(event_id id) noexcept { return descriptions[static_cast<std::size_t>(id)]; }

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

struct {
  log_level least = info;
  event_limit limit;
} settings;

/// How many events were suppressed before this one; nothing where this one is, too.
std::optional<std::uint64_t> pass_limit(const description& what, const std::vector<field>& fields) {
  const auto peer = std::find_if(fields.begin(), fields.end(), [](const field& f) { return f.name == "peer"; });
  if (!what.limited || peer == fields.end()) {
    return 0;
  }
  return settings.limit.pass(host_of(peer->value), event_limit::clock::now());
}

}  // namespace

void set_log_level(log_level level) { settings.least = level; }

void forget_peers() { settings.limit = {}; }

void emit(event_id id, std::initializer_list<field> given) {
  const auto& what = describe(id);
  if (what.level < settings.least) {
    return;
  }
  std::vector<field> fields{given};
  const auto suppressed = pass_limit(what, fields);
  if (!suppressed) {
    return;
  }
  if (*suppressed > 0) {
    fields.emplace_back("suppressed", *suppressed);
  }
  std::string text{what.name};
  text += ": ";
  text += what.sentence;
  for (const auto& f : fields) {
    text += ' ';
    text += f.name;
    text += '=';
    text += presentable(f.value);
  }
  write_log({what.level, what.name, what.message_id, text, fields});
}

std::string_view name_of(event_id id) noexcept { return describe(id).name; }

}  // namespace gpurdma::daemon
