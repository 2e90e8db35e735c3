#include "client/options.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "client/failure.hpp"
#include "memory/byte_size.hpp"
#include "protocol/message.hpp"

namespace gpurdma::client {
namespace {

/// A CLI11 option whose value is a size.
void add_size(CLI::App& app, const std::string& name, const std::string& help, std::function<void(std::uint64_t)> set) {
  app.add_option_function<std::string>(
         name,
         [name, set = std::move(set)](const std::string& text) {
           const auto value = memory::parse_byte_size(text);
           if (!value) {
             throw CLI::ValidationError{name, "'" + text + "' is no size; write 4096, 4KiB, 4kB or 1GiB"};
           }
           set(*value);
         },
         help)
      ->type_name("SIZE");
}

int fail_usage(const std::string& why) {
  std::fprintf(stderr, "gpurdma-read: %s\nRun with --help for more information.\n", why.c_str());
  return static_cast<int>(exit_status::usage);
}

}  // namespace

std::optional<target> parse_target(const std::string& text) {
  target parsed;
  std::string_view rest = text;
  if (rest.starts_with('[')) {
    const auto end = rest.find(']');
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    parsed.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
  } else {
    parsed.host = rest.substr(0, rest.find_first_of(":/"));
    rest.remove_prefix(parsed.host.size());
  }
  if (rest.starts_with(':')) {
    const auto port = rest.substr(1, rest.find('/') == std::string_view::npos ? rest.npos : rest.find('/') - 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parsed.port);
    if (error != std::errc{} || end != port.data() + port.size() || parsed.port == 0) {
      return std::nullopt;
    }
    rest.remove_prefix(1 + port.size());
  }
  if (rest.starts_with('/')) {
    parsed.buffer = rest.substr(1);
    if (!protocol::is_valid_name(parsed.buffer)) {
      return std::nullopt;
    }
  } else if (!rest.empty()) {
    return std::nullopt;
  }
  return parsed.host.empty() ? std::nullopt : std::optional{parsed};
}

std::optional<options> parse_options(int argc, const char* const* argv, int& status) {
  options asked;
  std::string where;
  double timeout_s = 10;
  CLI::App app{"Reads a buffer of a gpurdma-server by one-sided RDMA READ."};
  app.name("gpurdma-read");
  app.set_version_flag("--version", std::string{"gpurdma-read "} + GPURDMA_VERSION);
  app.add_option("target", where, "HOST[:PORT]/BUFFER; an IPv6 address in brackets")->required();
  app.add_flag("--list", asked.list, "List the server's buffers");
  app.add_option("-o,--output", asked.output, "File to write, or - for standard output; else the bytes go nowhere");
  app.add_option("--to-gpu", asked.to_gpu, "GPU to read into: its index, UUID or PCI address");
  add_size(app, "--offset", "First byte to read", [&](std::uint64_t v) { asked.offset = v; });
  add_size(app, "--length", "Bytes to read; to the buffer's end where left out",
           [&](std::uint64_t v) { asked.length = v; });
  app.add_flag("--verify,!--no-verify", asked.verify, "Check the bytes against the server's checksums (as is usual)");
  app.add_flag("--json", asked.json, "Say the result as JSON on standard output");
  app.add_option("--depth", asked.depth, "READs under way at once")
      ->check(CLI::Range(1U, 1024U))
      ->capture_default_str();
  std::uint64_t size = asked.read_size;
  add_size(app, "--size", "Bytes of one READ, 4KiB to 64MiB (1MiB)", [&](std::uint64_t v) { size = v; });
  app.add_flag("--bench", asked.bench, "Measure READs into memory; the bytes are not looked at");
  constexpr std::uint32_t most_reads = 10'000'000;
  auto* const count = app.add_option("--count", asked.count, "READs that --bench measures");
  count->check(CLI::Range(1U, most_reads))->capture_default_str()->needs("--bench");
  app.add_option("--timeout", timeout_s, "Seconds that each wait for the server may take")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    status = app.exit(e) == 0 ? 0 : static_cast<int>(exit_status::usage);
    return std::nullopt;
  }
  const auto at = parse_target(where);
  constexpr std::uint64_t least_size = 4096;
  constexpr std::uint64_t most_size = std::uint64_t{64} << 20U;
  if (!at) {
    status = fail_usage("'" + where + "' is no target; write HOST[:PORT]/BUFFER, such as gpu-node-1/weights or " +
                        "'[2001:db8::7]:7471/weights'");
  } else if (asked.list != at->buffer.empty()) {
    status = fail_usage(asked.list ? "--list lists all buffers: give HOST[:PORT] alone"
                                   : "which buffer? write HOST[:PORT]/BUFFER, or --list HOST[:PORT]");
  } else if (size < least_size || size > most_size) {
    status = fail_usage("--size must be from 4KiB to 64MiB");
  } else if (std::isnan(timeout_s)) {  // which lies in every range
    status = fail_usage("--timeout must be a number of seconds");
  } else if (asked.output == "") {
    status = fail_usage("--output needs the name of a file, or -");
  } else if (asked.list && asked.output) {
    status = fail_usage("--list prints to standard output; it takes no -o");
  } else if (asked.to_gpu && (asked.list || asked.output)) {
    status = fail_usage("--to-gpu reads into a GPU's memory alone; it takes no --list and no -o");
  } else if (asked.bench && (asked.list || asked.output)) {
    status = fail_usage("--bench reads into memory alone; it takes no --list and no -o");
  } else if (asked.json && asked.output == "-") {
    status = fail_usage("--json and -o - both want standard output");
  } else {
    asked.host = at->host;
    asked.port = at->port;
    asked.buffer = at->buffer;
    asked.read_size = static_cast<std::uint32_t>(size);
    asked.timeout = std::chrono::milliseconds{static_cast<std::int64_t>(timeout_s * 1000)};
    return asked;
  }
  return std::nullopt;
}

}  // namespace gpurdma::client
