#pragma once

// yaml-cpp nodes with the strictness that a configuration wants: every key known, none twice, every value of its
// type, and each problem with its place. Problems are collected, so that one run shows them all.

#include <yaml-cpp/yaml.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpurdma::daemon {

/// The document that `text` consists of; a null node where there is none, or several. Throws YAML::Exception.
[[nodiscard]] YAML::Node load_only_document(const std::string& text);

class yaml_reader {
 public:
  explicit yaml_reader(std::string file) : file_{std::move(file)} {}

  using value_reader = std::function<void(const YAML::Node& value)>;
  struct key {
    std::string_view name;
    value_reader read;
  };

  /// Hands each value of the map `node` to its key's reader. `what` names the map in problems.
  void map(const YAML::Node& node, std::string_view what, const std::vector<key>& keys);
  void sequence(const YAML::Node& node, std::string_view what, const value_reader& read_item);

  /// Nothing, and a problem noted, where the value is not what is asked for.
  std::optional<std::string> text(const YAML::Node& node, std::string_view what);
  std::optional<bool> boolean(const YAML::Node& node, std::string_view what);
  std::optional<std::uint32_t> number(const YAML::Node& node, std::string_view what, std::uint32_t least,
                                      std::uint32_t most);
  std::optional<std::uint64_t> byte_size(const YAML::Node& node, std::string_view what);
  std::optional<std::chrono::milliseconds> duration(const YAML::Node& node, std::string_view what,
                                                    std::chrono::milliseconds least, std::chrono::milliseconds most);
  /// The position of the value among `choices`.
  std::optional<std::size_t> choice(const YAML::Node& node, std::string_view what,
                                    const std::vector<std::string_view>& choices);

  void problem(const YAML::Mark& at, const std::string& text);
  void problem(const YAML::Node& at, const std::string& text) { problem(at.Mark(), text); }
  /// Of the file as a whole.
  void problem(const std::string& text);

  [[nodiscard]] const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  void problem_at(const std::string& place, std::string text);

  std::string file_;
  std::vector<std::string> problems_;
};

}  // namespace gpurdma::daemon
