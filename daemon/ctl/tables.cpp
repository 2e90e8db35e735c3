#include "daemon/ctl/tables.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <string_view>
#include <vector>

namespace gpurdma::ctl {
namespace {

namespace json = boost::json;

using row = std::vector<std::string>;

/// Text as it is but for what would move a terminal's cursor; lists joined.
std::string text_of(const json::value& v) {
  if (v.is_double()) {
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%.1f", v.get_double());
    return text.data();
  }
  if (const auto* const list = v.if_array()) {
    std::string all;
    for (const auto& item : *list) {
      all += (all.empty() ? "" : ",") + text_of(item);
    }
    return all.empty() ? "-" : all;
  }
  auto text = v.is_string() ? std::string{v.get_string()} : json::serialize(v);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == 0x7F; }, '?');
  return text;
}

std::string member(const json::object& of, std::string_view name) {
  const auto* const found = of.if_contains(name);
  return found == nullptr ? "-" : text_of(*found);
}

const json::array& list(const json::object& of, std::string_view name) {
  static const json::array none;
  const auto* const found = of.if_contains(name);
  return found != nullptr && found->is_array() ? found->get_array() : none;
}

std::string table(const std::vector<row>& rows) {
  std::vector<std::size_t> widths(rows.front().size());
  for (const auto& r : rows) {
    for (std::size_t i = 0; i < r.size(); ++i) {
      widths[i] = std::max(widths[i], r[i].size());
    }
  }
  std::string text;
  for (const auto& r : rows) {
    for (std::size_t i = 0; i < r.size(); ++i) {
      text += r[i] + (i + 1 < r.size() ? std::string(widths[i] + 2 - r[i].size(), ' ') : "\n");
    }
  }
  return text;
}

std::string status(const json::object& answer) {
  std::vector<row> rows;
  for (const auto* const name : {"state", "version", "pid", "seconds", "listen", "devices", "buffers",
                                 "retired_versions", "clients", "leases", "reloading"}) {
    rows.push_back({name, member(answer, name)});
  }
  return table(rows);
}

std::string columns(const json::array& items, const std::vector<std::pair<std::string, std::string>>& which) {
  std::vector<row> rows(1);
  for (const auto& [title, name] : which) {
    rows[0].push_back(title);
  }
  for (const auto& item : items) {
    row r;
    for (const auto& [title, name] : which) {
      r.push_back(item.is_object() ? member(item.get_object(), name) : "-");
    }
    rows.push_back(std::move(r));
  }
  return table(rows);
}

std::string clients(const json::object& answer) {
  auto items = list(answer, "clients");
  for (auto& item : items) {
    auto& client = item.as_object();
    std::vector<std::string> held;
    for (const auto& l : list(client, "leases")) {
      const auto& lease = l.as_object();
      held.push_back(member(lease, "lease") + ":" + member(lease, "buffer") + "/" + member(lease, "version"));
    }
    client["held"] = json::array(held.begin(), held.end());
  }
  auto text = columns(items, {{"CLIENT", "client"},
                              {"PEER", "peer"},
                              {"CONNECTIONS", "connections"},
                              {"SECONDS", "seconds"},
                              {"BYTES-READ", "bytes_read"},
                              {"LEASES", "held"}});
  if (const auto more = member(answer, "not_shown"); more != "0" && more != "-") {
    text += more + " more\n";
  }
  return text;
}

std::string verification(const json::object& answer) {
  std::string text;
  for (const auto& item : list(answer, "buffers")) {
    const auto& b = item.as_object();
    text += member(b, "buffer") + " version " + member(b, "version") + ": " + member(b, "bytes") + " bytes, " +
            (b.contains("error") ? member(b, "error") : "data OK") + "\n";
  }
  return text;
}

std::string reload(const json::object& answer) {
  std::vector<row> rows;
  for (const auto* const name : {"added", "replaced", "removed", "kept"}) {
    rows.push_back({name, member(answer, name)});
  }
  auto text = table(rows);
  for (const auto& item : list(answer, "failed")) {
    text += "buffer " + member(item.as_object(), "buffer") + ": " + member(item.as_object(), "error") + "\n";
  }
  for (const auto& key : list(answer, "needs_restart")) {
    text += text_of(key) + " changed, which needs a restart: systemctl restart gpurdma-server\n";
  }
  return text;
}

}  // namespace

std::string describe(const std::string& command, const json::object& answer) {
  if (command == "status") {
    return status(answer);
  }
  if (command == "buffers") {
    return columns(list(answer, "buffers"), {{"BUFFER", "buffer"},
                                             {"VERSION", "version"},
                                             {"BYTES", "bytes"},
                                             {"STATE", "state"},
                                             {"LEASES", "leases"},
                                             {"SECONDS-LEFT", "seconds_left"}});
  }
  if (command == "clients") {
    return clients(answer);
  }
  if (command == "verify") {
    return verification(answer);
  }
  if (command == "reload") {
    return reload(answer);
  }
  return "dropped client " + member(answer, "client") + " (" + member(answer, "peer") + ")\n";
}

}  // namespace gpurdma::ctl
