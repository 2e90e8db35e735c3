#pragma once

// Cursors over bytes, little-endian. Private to protocol/.

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gpurdma::protocol {

/// Reads forward. Past the end it yields zeros and `ok()` turns false for good, so a caller checks once.
class byte_reader {
 public:
  explicit byte_reader(std::span<const std::byte> bytes) noexcept : bytes_{bytes} {}

  template <std::unsigned_integral T>
  [[nodiscard]] T number() noexcept {
    std::array<std::byte, sizeof(T)> raw{};
    take(raw);
    std::uint64_t value = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) {
      value = (value << 8U) | std::to_integer<std::uint64_t>(raw.at(i));
    }
    return static_cast<T>(value);
  }

  void take(std::span<std::byte> to) noexcept {
    if (to.size() > bytes_.size()) {
      fail();
      return;
    }
    std::copy_n(bytes_.begin(), to.size(), to.begin());
    bytes_ = bytes_.subspan(to.size());
  }

  [[nodiscard]] std::string text(std::size_t size) {
    if (size > bytes_.size()) {
      fail();
      return {};
    }
    std::string value(size, '\0');
    std::transform(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size), value.begin(),
                   [](std::byte b) { return static_cast<char>(b); });
    bytes_ = bytes_.subspan(size);
    return value;
  }

  /// A field of fixed size that holds a shorter text and then zeros only.
  [[nodiscard]] std::string padded_text(std::size_t size) {
    auto value = text(size);
    const auto end = std::min(value.find('\0'), value.size());
    require(std::all_of(value.begin() + static_cast<std::ptrdiff_t>(end), value.end(), [](char c) { return c == 0; }));
    value.resize(end);
    return value;
  }

  void zeros(std::size_t size) {
    const auto value = text(size);
    require(std::all_of(value.begin(), value.end(), [](char c) { return c == 0; }));
  }

  void require(bool condition) noexcept {
    if (!condition) {
      fail();
    }
  }
  [[nodiscard]] std::size_t left() const noexcept { return bytes_.size(); }
  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] bool ok_and_empty() const noexcept { return ok_ && bytes_.empty(); }

 private:
  void fail() noexcept {
    ok_ = false;
    bytes_ = {};
  }

  std::span<const std::byte> bytes_;
  bool ok_ = true;
};

class byte_writer {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    auto rest = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i) {
      bytes_.push_back(static_cast<std::byte>(rest & 0xFFU));
      rest >>= 8U;
    }
  }
  void raw(std::span<const std::byte> value) { bytes_.insert(bytes_.end(), value.begin(), value.end()); }
  void text(std::string_view value) { raw(std::as_bytes(std::span{value})); }
  void padded_text(std::string_view value, std::size_t size) {
    const auto kept = value.substr(0, size);
    text(kept);
    zeros(size - kept.size());
  }
  void zeros(std::size_t size) { bytes_.resize(bytes_.size() + size); }

  /// Overwrites two bytes written before, e.g. with a length known only at the end.
  void number_at(std::size_t position, std::uint16_t value) {
    bytes_.at(position) = static_cast<std::byte>(value & 0xFFU);
    bytes_.at(position + 1) = static_cast<std::byte>(value >> 8U);
  }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::vector<std::byte> take() && { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

/// `text` as it may stand on the wire: printable ASCII, at most `size` bytes. Keeps control characters of a peer out
/// of logs and terminals, and ours out of theirs.
[[nodiscard]] std::string wire_sentence(std::string_view text, std::size_t size);
[[nodiscard]] bool is_wire_sentence(std::string_view text) noexcept;

}  // namespace gpurdma::protocol
