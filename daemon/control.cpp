#include "daemon/control.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/value.hpp>
#include <map>
#include <utility>
#include <vector>

#include "daemon/event.hpp"
#include "daemon/verifier.hpp"
#include "rdma/listener.hpp"

namespace gpurdma::daemon {
namespace {

namespace json = boost::json;

// Clients in one answer; who has more asks for the rest of them elsewhere: the log names each.
constexpr std::size_t most_clients_shown = 4096;

json::object refused(std::string_view why) { return {{"result", "refused"}, {"error", why}}; }

json::array array_of(const std::vector<std::string>& texts) {
  // NOLINTNEXTLINE(modernize-return-braced-init-list): braces would make a list of two iterators
  return json::array(texts.begin(), texts.end());
}

double seconds(std::chrono::milliseconds duration) { return static_cast<double>(duration.count()) / 1000.0; }

json::object shown(const client_view& c) {
  json::array leases;
  for (const auto& l : c.leases) {
    leases.push_back({{"lease", l.id},
                      {"buffer", l.buffer},
                      {"version", l.version},
                      {"bytes", l.bytes},
                      {"seconds_left", seconds(l.left)}});
  }
  return {{"client", c.number},           {"peer", c.peer},
          {"connections", c.connections}, {"queue_pairs", json::array(c.queue_pairs.begin(), c.queue_pairs.end())},
          {"leases", std::move(leases)},  {"leases_granted", c.leases_granted},
          {"bytes_read", c.bytes_read},   {"seconds", seconds(c.connected)}};
}

json::object shown(const reloader::result& r) {
  const auto names = [](const std::vector<buffer_config>& buffers) {
    json::array all;
    for (const auto& b : buffers) {
      all.emplace_back(b.name);
    }
    return all;
  };
  if (!r.why.empty()) {
    return refused(r.why);
  }
  json::array failed;
  for (const auto& f : r.failed) {
    failed.push_back({{"buffer", f.buffer}, {"error", f.why}});
  }
  return {{"result", r.ok() ? "done" : "incomplete"},
          {"added", names(r.plan.added)},
          {"replaced", names(r.plan.replaced)},
          {"removed", array_of(r.plan.removed)},
          {"kept", array_of(r.plan.kept)},
          {"failed", std::move(failed)},
          {"needs_restart", array_of(r.plan.needs_restart)}};
}

/// The text of a member; empty where it is not there.
std::string text_of(const json::object& request, std::string_view name) {
  const auto* const value = request.if_contains(name);
  return value != nullptr && value->is_string() ? std::string{value->get_string()} : std::string{};
}

}  // namespace

void control::on_request(const json::object& request, const answer& then) {
  const auto command = text_of(request, "command");
  if (command != "status" && command != "buffers" && command != "clients") {
    emit(event_id::control_command, {{"command", command}});
  }
  dispatch(command, request, then);
}

void control::dispatch(const std::string& command, const json::object& request, const answer& then) {
  if (command == "status") {
    then(status());
  } else if (command == "buffers") {
    then(buffers());
  } else if (command == "clients") {
    then(clients());
  } else if (command == "drop") {
    const auto* const which = request.if_contains("client");
    json::error_code none;
    const auto number = which != nullptr ? which->to_number<std::uint64_t>(none) : 0;
    then(drop(none ? 0 : number));
  } else if (command == "verify") {
    verify(text_of(request, "buffer"), then);
  } else if (command == "reload") {
    reload(text_of(request, "republish"), then);
  } else {
    then(refused("there is no command '" + command + "'; there are status, buffers, clients, drop, verify and reload"));
  }
}

json::object control::status() const {
  const auto now = std::chrono::steady_clock::now();
  return {{"result", "done"},
          {"version", GPURDMA_VERSION},
          {"pid", getpid()},
          {"state", with_.phase()},
          {"listen", array_of(with_.clients.addresses())},
          {"devices", array_of(with_.devices.names())},
          {"seconds", seconds(std::chrono::duration_cast<std::chrono::milliseconds>(now - since_))},
          {"clients", with_.clients.clients()},
          {"leases", with_.shared.leases},
          {"buffers", with_.pool.all().size()},
          {"retired_versions", with_.pool.all_retired().size()},
          {"reloading", with_.reload.under_way()}};
}

json::object control::buffers() const {
  std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> leases;
  for (const auto& s : with_.clients.sessions()) {
    for (const auto& l : s->view().leases) {
      ++leases[{l.buffer, l.version}];
    }
  }
  json::array all;
  const auto add = [&](const buffer_version& v, std::string_view state) -> json::object& {
    const std::pair key{v.name, v.version};
    all.push_back({{"buffer", v.name},
                   {"version", v.version},
                   {"bytes", v.memory->size()},
                   {"state", state},
                   {"leases", leases.contains(key) ? leases.at(key) : 0}});
    return all.back().get_object();
  };
  for (const auto& v : with_.pool.all()) {
    add(*v, "served");
  }
  const auto now = retired_version::clock::now();
  for (const auto& r : with_.pool.all_retired()) {
    const auto left =
        std::max(std::chrono::duration_cast<std::chrono::milliseconds>(r.until - now), std::chrono::milliseconds{0});
    add(*r.version, r.replaced ? "replaced" : "removed")["seconds_left"] = seconds(left);
  }
  return {{"result", "done"}, {"buffers", std::move(all)}};
}

json::object control::clients() const {
  const auto sessions = with_.clients.sessions();
  const auto count = std::min(sessions.size(), most_clients_shown);
  json::array all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back(shown(sessions[i]->view()));
  }
  return {{"result", "done"}, {"clients", std::move(all)}, {"not_shown", sessions.size() - count}};
}

json::object control::drop(std::uint64_t client) const {
  for (const auto& s : with_.clients.sessions()) {
    if (s->number() == client) {
      s->expel();
      return {{"result", "done"}, {"client", client}, {"peer", s->peer()}};
    }
  }
  return refused("there is no such client; see gpurdma-ctl clients");
}

void control::verify(const std::string& buffer, const answer& then) {
  if (verifying_) {
    then(refused("a verify is under way; try again when it has ended"));
    return;
  }
  auto versions = with_.pool.all();
  if (!buffer.empty()) {
    std::erase_if(versions, [&](const auto& v) { return v->name != buffer; });
    if (versions.empty()) {
      then(refused("there is no buffer '" + buffer + "'"));
      return;
    }
  }
  verifying_ = true;
  daemon::verify(
      with_.loaders, with_.registrations, versions, with_.stop, [this, then](const std::vector<verification>& results) {
        verifying_ = false;
        with_.verified(results);
        json::array all;
        bool damaged = false;
        for (const auto& v : results) {
          auto& shown =
              all
                  .emplace_back(json::object{
                      {"buffer", v.buffer}, {"version", v.version}, {"bytes", v.bytes}, {"ok", v.why.empty()}})
                  .get_object();
          if (!v.why.empty()) {
            shown["error"] = v.why;
            damaged = true;
          }
        }
        then({{"result", damaged ? "damaged" : "done"}, {"buffers", std::move(all)}});
      });
}

void control::reload(const std::string& republish, const answer& then) const {
  if (with_.phase() != "serving") {
    then(refused("the server is " + with_.phase()));
  } else if (with_.reload.under_way()) {
    then(refused("a reload is under way; try again when it has ended"));
  } else {
    with_.start_reload(republish.empty() ? std::set<std::string>{} : std::set{republish},
                       [then](const reloader::result& r) { then(shown(r)); });
  }
}

}  // namespace gpurdma::daemon
