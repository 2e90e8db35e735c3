#include "client/report.hpp"

#include <algorithm>
#include <array>
#include <boost/json/src.hpp>
#include <cstdio>
#include <vector>

namespace gpurdma::client {

namespace {

std::string bench_summary(const outcome& of) {
  const auto& b = *of.bench;
  constexpr double mebibyte = 1U << 20U;
  std::array<char, 200> text{};
  std::snprintf(text.data(), text.size(),
                "%.1f MiB/s; latency %.1f us median, %.1f least, 99 %% within %.1f; first lease after %.1f ms",
                static_cast<double>(of.bytes) / mebibyte / of.seconds, b.latency_median, b.latency_min, b.latency_p99,
                of.seconds_to_lease * 1000);
  return std::to_string(b.reads) + " READs of " + std::to_string(b.read_size) + " bytes, " + std::to_string(b.depth) +
         " at once: " + text.data();
}

}  // namespace

std::string summary(const outcome& of) {
  if (of.bench) {
    return bench_summary(of);
  }
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
    top["seconds"] = of.seconds;
    top["seconds_to_lease"] = of.seconds_to_lease;
    if (!asked.bench) {
      top["bytes_verified"] = of.verified;
    }
    if (of.bench) {
      const auto& b = *of.bench;
      top["reads"] = b.reads;
      top["read_size"] = b.read_size;
      top["depth"] = b.depth;
      top["latency_us"] = {{"min", b.latency_min}, {"median", b.latency_median}, {"p99", b.latency_p99}};
    }
  }
  return boost::json::serialize(top);
}

}  // namespace gpurdma::client
