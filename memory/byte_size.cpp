#include "memory/byte_size.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <system_error>
#include <utility>

namespace gpurdma::memory {
namespace {

constexpr std::array<std::pair<std::string_view, std::uint64_t>, 10> units{{{"", 1},
                                                                            {"B", 1},
                                                                            {"kB", 1'000},
                                                                            {"MB", 1'000'000},
                                                                            {"GB", 1'000'000'000},
                                                                            {"TB", 1'000'000'000'000},
                                                                            {"KiB", std::uint64_t{1} << 10U},
                                                                            {"MiB", std::uint64_t{1} << 20U},
                                                                            {"GiB", std::uint64_t{1} << 30U},
                                                                            {"TiB", std::uint64_t{1} << 40U}}};

}  // namespace

std::optional<std::uint64_t> parse_byte_size(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) {
    return std::nullopt;
  }
  const auto unit = text.substr(static_cast<std::size_t>(rest - text.data()));
  for (const auto& [name, factor] : units) {
    if (unit == name) {
      return number > ~std::uint64_t{0} / factor ? std::nullopt : std::optional{number * factor};
    }
  }
  return std::nullopt;
}

std::string format_byte_size(std::uint64_t bytes) {
  constexpr std::array<const char*, 7> names{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < names.size()) {
    value /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g %s", value, names.at(unit));
  return text.data();
}

}  // namespace gpurdma::memory
