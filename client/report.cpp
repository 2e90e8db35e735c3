#include "client/report.hpp"

#include <algorithm>
#include <boost/json/src.hpp>

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
  std::size_t width = 4;
  for (const auto& b : of.buffers) {
    width = std::max(width, b.name.size());
  }
  const auto padded = [&](const std::string& text) { return text + std::string(width + 2 - text.size(), ' '); };
  std::string text = padded("NAME") + "BYTES  VERSION\n";
  for (const auto& b : of.buffers) {
    text += padded(b.name) + std::to_string(b.size) + "  " + std::to_string(b.version) + (b.staged ? "  staged" : "") +
            "\n";
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
