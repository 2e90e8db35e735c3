#include "daemon/config.hpp"

#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/yaml_reader.hpp"
#include "memory/gpu.hpp"
#include "protocol/message.hpp"

namespace gpurdma::daemon {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t default_port = 7471;

/// "192.0.2.1:7471", "192.0.2.1", "[2001:db8::1]:7471", "[::]".
std::optional<rdma::endpoint> parse_endpoint(std::string_view text) {
  std::string_view host;
  std::string_view rest;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) {
      return std::nullopt;
    }
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
  } else {
    host = text.substr(0, text.find(':'));
    rest = text.substr(host.size());
  }
  std::uint16_t port = default_port;
  if (!rest.empty()) {
    if (rest.front() != ':') {
      return std::nullopt;
    }
    rest.remove_prefix(1);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
    if (error != std::errc{} || end != rest.data() + rest.size() || port == 0) {
      return std::nullopt;
    }
  }
  try {
    return rdma::endpoint::parse(std::string{host}, port);
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

void read_listen(yaml_reader& in, const YAML::Node& node, config& to) {
  in.sequence(node, "listen", [&](const YAML::Node& item) {
    const auto text = in.text(item, "an address of listen");
    if (!text) {
      return;
    }
    const auto at = parse_endpoint(*text);
    if (!at) {
      in.problem(item, "'" + *text +
                           "' is no address to listen on; write an IP address and a port, such as \"0.0.0.0:7471\" or "
                           "\"[2001:db8::7]:7471\"");
    } else if (std::any_of(to.listen.begin(), to.listen.end(),
                           [&](const rdma::endpoint& other) { return other.to_string() == at->to_string(); })) {
      in.problem(item, "'" + *text + "' stands twice in listen; remove one");
    } else {
      to.listen.push_back(*at);
    }
  });
}

std::optional<memory::content_source> read_fill(yaml_reader& in, const YAML::Node& node) {
  const auto text = in.text(node, "fill");
  if (!text) {
    return std::nullopt;
  }
  if (*text == "counting") {
    return memory::counting_fill{};
  }
  if (text->size() == 1) {
    return memory::byte_fill{static_cast<std::byte>(text->front())};
  }
  in.problem(node, "fill must be one character, such as \"R\", or counting");
  return std::nullopt;
}

struct buffer_fields {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
  std::optional<memory::content_source> fill;
  std::optional<std::string> source;
  std::optional<std::size_t> memory;  ///< of the choices host, cuda
  std::optional<std::string> gpu;
  std::optional<bool> allow_staging;
  replacement replace = replacement::keep;
};

constexpr std::size_t cuda = 1;  // of the choices host, cuda

/// Which GPU a buffer of GPU memory is on; nothing, and a problem noted, where there is no such GPU.
std::optional<std::string> find_gpu(yaml_reader& in, const YAML::Node& node, const buffer_fields& fields,
                                    missing_gpu gpus) {
  auto selector = fields.gpu.value_or("0");
  if (gpus == missing_gpu::allowed) {
    return selector;
  }
  if (const auto why = memory::cuda_unavailable()) {
    in.problem(node, "memory: cuda cannot be had: " + *why);
    return std::nullopt;
  }
  try {
    static_cast<void>(memory::select_gpu(memory::list_gpus(), selector));
  } catch (const std::system_error& e) {
    in.problem(node, "gpu: " + std::string{e.what()});
    return std::nullopt;
  }
  return selector;
}

/// The buffer that the fields make; nothing, and problems noted, where they do not.
std::optional<buffer_config> make_buffer(yaml_reader& in, const YAML::Node& node, const buffer_fields& fields,
                                         missing_gpu gpus) {
  const auto problems_before = in.problems().size();
  if (!fields.name) {
    in.problem(node, "a buffer needs a name");
  }
  if (!fields.memory) {
    in.problem(node, "a buffer needs memory: host or cuda");
  } else if (fields.memory != cuda && (fields.gpu || fields.allow_staging)) {
    in.problem(node, "gpu and allow_staging are for memory: cuda");
  }
  if (fields.fill && fields.source) {
    in.problem(node, "a buffer has either fill or source, not both");
  } else if (!fields.fill && !fields.source) {
    in.problem(node, "a buffer needs its content: fill or source");
  } else if (fields.fill && !fields.size) {
    in.problem(node, "a buffer with fill needs a size");
  }
  if (in.problems().size() != problems_before) {
    return std::nullopt;
  }
  buffer_config made{.name = *fields.name, .size = 0, .source = {}, .replace = fields.replace};
  if (fields.memory == cuda) {
    made.gpu = find_gpu(in, node, fields, gpus);
    made.allow_staging = fields.allow_staging.value_or(false);
    if (!made.gpu) {
      return std::nullopt;
    }
  }
  if (fields.fill) {
    made.size = *fields.size;
    made.source = *fields.fill;
    return made;
  }
  try {
    made.size = memory::file_size(*fields.source);
  } catch (const std::system_error& e) {
    in.problem(node, e.what());
    return std::nullopt;
  }
  if (fields.size && *fields.size != made.size) {
    in.problem(node, "source " + *fields.source + " has " + std::to_string(made.size) + " bytes, size says " +
                         std::to_string(*fields.size) + "; leave size out to take the file's");
    return std::nullopt;
  }
  made.source = memory::file_source{*fields.source};
  return made;
}

std::optional<std::string> read_name(yaml_reader& in, const YAML::Node& node) {
  auto name = in.text(node, "name");
  if (name && !protocol::is_valid_name(*name)) {
    in.problem(node, "'" + *name +
                         "' is no name for a buffer: use 1 to 64 of the characters A-Z a-z 0-9 . _ -, the first no . "
                         "or -");
    return std::nullopt;
  }
  return name;
}

std::optional<std::string> read_source(yaml_reader& in, const YAML::Node& node) {
  auto path = in.text(node, "source");
  if (path && path->find('\0') != std::string::npos) {
    in.problem(node, "source holds a zero byte, which no path has");
    return std::nullopt;
  }
  return path;
}

void read_buffer(yaml_reader& in, const YAML::Node& node, missing_gpu gpus, config& to) {
  buffer_fields fields;
  const auto problems_before = in.problems().size();
  in.map(node, "a buffer",
         {{"name", [&](const YAML::Node& v) { fields.name = read_name(in, v); }},
          {"memory",
           [&](const YAML::Node& v) {
             fields.memory = in.choice(v, "memory", {"host", "cuda"});
           }},
          {"gpu", [&](const YAML::Node& v) { fields.gpu = in.text(v, "gpu"); }},
          {"allow_staging", [&](const YAML::Node& v) { fields.allow_staging = in.boolean(v, "allow_staging"); }},
          {"size", [&](const YAML::Node& v) { fields.size = in.byte_size(v, "size"); }},
          {"fill", [&](const YAML::Node& v) { fields.fill = read_fill(in, v); }},
          {"source", [&](const YAML::Node& v) { fields.source = read_source(in, v); }},
          {"replace", [&](const YAML::Node& v) {
             if (const auto which = in.choice(v, "replace", {"keep", "drain"})) {
               fields.replace = *which == 0 ? replacement::keep : replacement::drain;
             }
           }}});
  if (in.problems().size() != problems_before) {
    return;
  }
  auto made = make_buffer(in, node, fields, gpus);
  if (!made) {
    return;
  }
  if (std::any_of(to.buffers.begin(), to.buffers.end(), [&](const auto& b) { return b.name == made->name; })) {
    in.problem(node, "there is already a buffer '" + made->name + "'");
    return;
  }
  to.buffers.push_back(std::move(*made));
}

template <typename T>
void set(T& to, const std::optional<T>& value) {
  if (value) {
    to = *value;
  }
}

void read_security(yaml_reader& in, const YAML::Node& node, config& to, bool& open) {
  in.map(node, "security",
         {{"open", [&](const YAML::Node& v) { set(open, in.boolean(v, "open")); }},
          {"isolation", [&](const YAML::Node& v) {
             if (const auto which = in.choice(v, "isolation", {"principal", "lease"})) {
               to.keys = *which == 0 ? isolation::principal : isolation::lease;
             }
           }}});
}

void read_keepalive(yaml_reader& in, const YAML::Node& node, config& to) {
  in.map(node, "keepalive",
         {{"interval", [&](const YAML::Node& v) { set(to.keepalive_interval, in.duration(v, "interval", 100ms, 1h)); }},
          {"timeout", [&](const YAML::Node& v) { set(to.keepalive_timeout, in.duration(v, "timeout", 200ms, 2h)); }}});
  if (to.keepalive_timeout <= to.keepalive_interval) {
    in.problem(node, "keepalive: timeout must be longer than interval");
  }
}

void read_control(yaml_reader& in, const YAML::Node& node, config& to) {
  // A Unix socket's address holds no longer path.
  constexpr std::size_t longest = sizeof(sockaddr_un::sun_path) - 1;
  in.map(node, "control",
         {{"socket",
           [&](const YAML::Node& v) {
             const auto path = in.text(v, "socket");
             if (path && (!path->starts_with('/') || path->size() > longest || path->find('\0') != std::string::npos)) {
               in.problem(v, "socket must be an absolute path of at most " + std::to_string(longest) + " bytes");
             } else if (path) {
               to.control.socket = *path;
             }
           }},
          {"group", [&](const YAML::Node& v) { set(to.control.group, in.text(v, "group")); }}});
}

void read_top(yaml_reader& in, const YAML::Node& root, missing_gpu gpus, config& to, bool& open) {
  constexpr std::uint32_t most_clients = 1'000'000;
  in.map(root, "the configuration",
         {{"listen", [&](const YAML::Node& v) { read_listen(in, v, to); }},
          {"limits",
           [&](const YAML::Node& v) {
             in.map(v, "limits",
                    {{"clients",
                      [&](const YAML::Node& n) { set(to.max_clients, in.number(n, "clients", 1, most_clients)); }},
                     {"leases_per_client", [&](const YAML::Node& n) {
                        set(to.leases_per_client, in.number(n, "leases_per_client", 1, 65'536));
                      }}});
           }},
          {"lease",
           [&](const YAML::Node& v) {
             in.map(v, "lease",
                    {{"duration",
                      [&](const YAML::Node& n) { set(to.lease_duration, in.duration(n, "duration", 100ms, 24h)); }},
                     {"grace", [&](const YAML::Node& n) { set(to.lease_grace, in.duration(n, "grace", 0ms, 24h)); }}});
           }},
          {"keepalive", [&](const YAML::Node& v) { read_keepalive(in, v, to); }},
          {"shutdown",
           [&](const YAML::Node& v) {
             in.map(v, "shutdown",
                    {{"drain", [&](const YAML::Node& n) { set(to.drain_timeout, in.duration(n, "drain", 0ms, 1h)); }}});
           }},
          {"security", [&](const YAML::Node& v) { read_security(in, v, to, open); }},
          {"control", [&](const YAML::Node& v) { read_control(in, v, to); }},
          {"buffers",
           [&](const YAML::Node& v) {
             in.sequence(v, "buffers", [&](const YAML::Node& item) { read_buffer(in, item, gpus, to); });
           }},
          {"log", [&](const YAML::Node& v) {
             in.map(v, "log", {{"level", [&](const YAML::Node& n) {
                                  if (const auto which = in.choice(n, "level", {"debug", "info", "warning", "error"})) {
                                    to.log = static_cast<log_level>(*which);
                                  }
                                }}});
           }}});
}

}  // namespace

config parse_config(const std::string& text, const std::string& name, missing_gpu gpus) {
  yaml_reader in{name};
  config parsed;
  bool open = false;
  try {
    const auto document = load_only_document(text);
    if (document.IsNull()) {
      in.problem("must hold one YAML document");
    } else {
      read_top(in, document, gpus, parsed, open);
    }
  } catch (const YAML::Exception& e) {
    in.problem(e.mark, "not YAML: " + e.msg);
  }
  if (in.problems().empty() && parsed.listen.empty()) {
    in.problem("nothing to listen on; write listen: [\"0.0.0.0:7471\"], or the address of an RDMA device");
  }
  if (in.problems().empty() && parsed.buffers.empty()) {
    in.problem("no buffers to serve; write at least one under buffers:");
  }
  if (in.problems().empty() && !open) {
    in.problem(
        "refused: whoever reaches this server could read its buffers, for this version has no authentication; where "
        "that is meant, write security: { open: true }");
  }
  if (!in.problems().empty()) {
    std::string all;
    for (const auto& problem : in.problems()) {
      all += (all.empty() ? "" : "\n") + problem;
    }
    throw config_error{all};
  }
  return parsed;
}

config load_config(const std::filesystem::path& file, missing_gpu gpus) {
  std::ifstream in{file};
  std::ostringstream text;
  // From an empty file << takes nothing, which it reports as a failure.
  if (in.peek() != std::ifstream::traits_type::eof()) {
    text << in.rdbuf();
  }
  if (!in.is_open() || in.bad() || !text) {
    const auto why = std::filesystem::exists(file) ? std::string{"cannot be read"} : std::string{"does not exist"};
    throw config_error{file.string() + ": " + why};
  }
  return parse_config(text.str(), file.string(), gpus);
}

}  // namespace gpurdma::daemon
