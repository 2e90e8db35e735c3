#include "client/report.hpp"

#include <algorithm>
#include <array>
#include <boost/json/src.hpp>
#include <vector>

namespace gpurdma::client {

std::string summary(const outcome& of) {
  std::string text = "read " + std::to_string(of.bytes) + " bytes, ";
  if (of.verified == of.bytes) {
    return text + "data OK";
  }
  if (of.verified == 0) {
    return text + "not verified";
  }
  return text + "data OK (" + std::to_string(of.bytes - of.verified) + " of them in partial blocks, not verified)";
}

std::string table(const outcome& of) {
  std::vector<std::array<std::string, 3>> rows{{"NAME", "BYTES", "VERSION"}};
  for (const auto& b : of.buffers) {
    rows.push_back({b.name, std::to_string(b.size), std::to_string(b.version) + (b.staged ? "  staged" : "")});
  }
  std::array<std::size_t, 2> widths{};
  for (const auto& row : rows) {
    widths = {std::max(widths[0], row[0].size()), std::max(widths[1], row[1].size())};
  }
  std::string text;
  for (const auto& row : rows) {
    text += row[0] + std::string(widths[0] + 2 - row[0].size(), ' ');
    text += std::string(widths[1] - row[1].size(), ' ') + row[1] + "  " + row[2] + "\n";
  }
  return text;
}

std::string json(const options& asked, const outcome& of) {
  boost::json::object top;
  top["status"] = of.failed ? static_cast<int>(of.failed->status) : 0;
  if (of.failed) {
    top["error"] = of.failed->what;
  }
  top["peer"] = of.peer;
  if (asked.list) {
    boost::json::array buffers;
    for (const auto& b : of.buffers) {
      buffers.push_back({{"name", b.name}, {"bytes", b.size}, {"version", b.version}, {"staged", b.staged}});
    }
    top["buffers"] = std::move(buffers);
  } else {
    top["buffer"] = asked.buffer;
    top["version"] = of.version;
    top["bytes"] = of.bytes;
    top["bytes_verified"] = of.verified;
    top["seconds"] = of.seconds;
  }
  return boost::json::serialize(top);
}

}  // namespace gpurdma::client
