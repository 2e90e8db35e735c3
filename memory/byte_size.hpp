#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpurdma::memory {

/// "4096", "4KiB", "4kB", "1GiB" and the like: a whole number and a unit (kB, MB, GB, TB; KiB, MiB, GiB, TiB).
/// Nothing where `text` is none of these or does not fit 64 bits.
[[nodiscard]] std::optional<std::uint64_t> parse_byte_size(std::string_view text) noexcept;

/// "4 KiB", "1.5 GiB": for people.
[[nodiscard]] std::string format_byte_size(std::uint64_t bytes);

}  // namespace gpurdma::memory
