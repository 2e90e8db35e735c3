#include "daemon/yaml_reader.hpp"

#include <yaml-cpp/eventhandler.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <sstream>

#include "memory/byte_size.hpp"

namespace gpurdma::daemon {
namespace {

std::string joined(const std::vector<std::string_view>& words) {
  std::string all;
  for (const auto word : words) {
    all += (all.empty() ? "" : ", ") + std::string{word};
  }
  return all;
}

std::string in_quotes(std::string_view text) { return "'" + std::string{text} + "'"; }

std::string seconds(std::chrono::milliseconds duration) {
  return duration.count() % 1000 == 0 ? std::to_string(duration.count() / 1000) + "s"
                                      : std::to_string(duration.count()) + "ms";
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 4> units{
      {{"ms", 1}, {"s", 1'000}, {"min", 60'000}, {"h", 3'600'000}}};
  std::int64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  const auto* const found =
      std::find_if(units.begin(), units.end(), [&](const auto& candidate) { return candidate.first == unit; });
  // The bound keeps the product within 64 bits; no duration comes near it.
  if (error != std::errc{} || found == units.end() || number < 0 || number > 1'000'000'000) {
    return std::nullopt;
  }
  return std::chrono::milliseconds{number * found->second};
}

/// Takes no notice of what a document holds.
class nothing_noticed final : public YAML::EventHandler {
 public:
  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}
};

}  // namespace

YAML::Node load_only_document(const std::string& text) {
  // Not YAML::LoadAll, which finds documents without end in a text that begins with a comma (yaml-cpp 0.7).
  std::istringstream in{text};
  YAML::Parser parser{in};
  nothing_noticed handler;
  if (parser.HandleNextDocument(handler) && parser.HandleNextDocument(handler)) {
    return {};
  }
  return YAML::Load(text);
}

void yaml_reader::problem(const YAML::Mark& at, const std::string& text) {
  problem_at(at.is_null() ? "" : std::to_string(at.line + 1) + ":" + std::to_string(at.column + 1) + ":", text);
}

void yaml_reader::problem(const std::string& text) { problem_at("", text); }

void yaml_reader::problem_at(const std::string& place, std::string text) {
  // A value of the file may hold anything, and this is printed, one problem a line.
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7F; }, '?');
  problems_.push_back(file_ + ":" + place + " " + text);
}

void yaml_reader::map(const YAML::Node& node, std::string_view what, const std::vector<key>& keys) {
  if (!node.IsMap()) {
    problem(node, std::string{what} + " must be a map of keys and values");
    return;
  }
  std::vector<std::string_view> names;
  std::transform(keys.begin(), keys.end(), std::back_inserter(names), [](const key& k) { return k.name; });
  std::set<std::string> seen;
  for (const auto& pair : node) {
    const auto name = pair.first.IsScalar() ? pair.first.Scalar() : std::string{};
    const auto known = std::find_if(keys.begin(), keys.end(), [&](const key& k) { return k.name == name; });
    if (known == keys.end()) {
      problem(pair.first,
              "unknown key " + in_quotes(name) + " in " + std::string{what} + "; known are: " + joined(names));
    } else if (!seen.insert(name).second) {
      problem(pair.first, "key " + in_quotes(name) + " stands twice in " + std::string{what} + "; remove one");
    } else {
      known->read(pair.second);
    }
  }
}

void yaml_reader::sequence(const YAML::Node& node, std::string_view what, const value_reader& read_item) {
  if (!node.IsSequence()) {
    problem(node, std::string{what} + " must be a list");
    return;
  }
  for (const auto& item : node) {
    read_item(item);
  }
}

std::optional<std::string> yaml_reader::text(const YAML::Node& node, std::string_view what) {
  if (!node.IsScalar()) {
    problem(node, std::string{what} + " must be a text");
    return std::nullopt;
  }
  return node.Scalar();
}

std::optional<bool> yaml_reader::boolean(const YAML::Node& node, std::string_view what) {
  if (node.IsScalar() && node.Tag() != "!" && (node.Scalar() == "true" || node.Scalar() == "false")) {
    return node.Scalar() == "true";
  }
  problem(node, std::string{what} + " must be true or false");
  return std::nullopt;
}

std::optional<std::uint32_t> yaml_reader::number(const YAML::Node& node, std::string_view what, std::uint32_t least,
                                                 std::uint32_t most) {
  if (node.IsScalar()) {
    const auto& scalar = node.Scalar();
    std::uint32_t value = 0;
    const auto [rest, error] = std::from_chars(scalar.data(), scalar.data() + scalar.size(), value);
    if (error == std::errc{} && rest == scalar.data() + scalar.size() && value >= least && value <= most) {
      return value;
    }
  }
  problem(node,
          std::string{what} + " must be a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return std::nullopt;
}

std::optional<std::uint64_t> yaml_reader::byte_size(const YAML::Node& node, std::string_view what) {
  const auto value = node.IsScalar() ? memory::parse_byte_size(node.Scalar()) : std::nullopt;
  if (!value || *value == 0) {
    problem(node, std::string{what} + " must be a size above 0, such as 4096, 4KiB, 4kB or 1GiB");
    return std::nullopt;
  }
  return value;
}

std::optional<std::chrono::milliseconds> yaml_reader::duration(const YAML::Node& node, std::string_view what,
                                                               std::chrono::milliseconds least,
                                                               std::chrono::milliseconds most) {
  const auto value = node.IsScalar() ? parse_duration(node.Scalar()) : std::nullopt;
  if (!value) {
    problem(node, std::string{what} + " must be a duration with its unit, such as 500ms, 30s, 5min or 1h");
    return std::nullopt;
  }
  if (*value < least || *value > most) {
    problem(node, std::string{what} + " must be from " + seconds(least) + " to " + seconds(most));
    return std::nullopt;
  }
  return value;
}

std::optional<std::size_t> yaml_reader::choice(const YAML::Node& node, std::string_view what,
                                               const std::vector<std::string_view>& choices) {
  if (node.IsScalar()) {
    const auto found = std::find(choices.begin(), choices.end(), node.Scalar());
    if (found != choices.end()) {
      return static_cast<std::size_t>(found - choices.begin());
    }
  }
  problem(node, std::string{what} + " must be one of: " + joined(choices));
  return std::nullopt;
}

}  // namespace gpurdma::daemon
