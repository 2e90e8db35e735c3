#pragma once

// Shared by the tests of protocol/.

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/codec.hpp"
#include "protocol/message.hpp"

namespace gpurdma::protocol::test {

using bytes = std::vector<std::byte>;

/// Bytes as docs/protocol.md writes them: "67 52 00*6" is 67 52 and six times 00.
inline bytes hex(std::string_view text) {
  bytes out;
  for (std::size_t at = 0; at < text.size();) {
    const auto token = text.substr(at, text.find(' ', at) - at);
    at += token.size() + 1;
    unsigned value = 0;
    std::size_t times = 1;
    std::from_chars(token.data(), token.data() + 2, value, 16);
    if (token.size() > 3) {
      std::from_chars(token.data() + 3, token.data() + token.size(), times);
    }
    out.insert(out.end(), times, static_cast<std::byte>(value));
  }
  return out;
}

inline bytes padded(bytes b, std::size_t size) {
  b.resize(size);
  return b;
}

/// Sets the little-endian 16-bit number at `offset`.
inline void put16(bytes& b, std::size_t offset, std::size_t value) {
  b.at(offset) = static_cast<std::byte>(value & 0xFFU);
  b.at(offset + 1) = static_cast<std::byte>(value >> 8U & 0xFFU);
}

/// The same numbers on every run and machine, which std's distributions do not promise.
class dice {
 public:
  explicit dice(std::uint64_t seed) : engine_{seed} {}
  std::uint64_t number() { return engine_(); }
  std::size_t below(std::size_t end) { return static_cast<std::size_t>(engine_() % end); }
  bool one_in(std::size_t n) { return below(n) == 0; }
  bytes some(std::size_t size) {
    bytes b(size);
    std::ranges::generate(b, [&] { return static_cast<std::byte>(engine_() & 0xFFU); });
    return b;
  }

 private:
  std::mt19937_64 engine_;
};

inline digest filled_digest(std::uint8_t value) {
  digest d;
  d.fill(static_cast<std::byte>(value));
  return d;
}

/// One of each message, with the bytes that docs/protocol.md gives for it.
struct example {
  message m;
  std::string_view hex;
};

inline std::vector<example> examples() {
  return {
      {{7, open{"demo", 4096}}, "01 00 58 00 07 00 00 00 00 10 00*6 ff*8 64 65 6d 6f 00*60"},
      {{7, lease{.id = 5,
                 .address = 0x7F0000001000,
                 .length = 4096,
                 .buffer_size = 8192,
                 .version = 3,
                 .rkey = 0x01020304,
                 .duration_ms = 30000,
                 .block_size = 1048576,
                 .staged = true}},
       "02 00 60 00 07 00 00 00 05 00*7 00 10 00 00 00 7f 00 00 00 10 00*6 00 20 00*6 03 00*7 "
       "04 03 02 01 30 75 00 00 00 00 10 00 01 00 00 00 00*32"},
      {{8, get_checksums{5, 0, 2}}, "03 00 20 00 08 00 00 00 05 00*7 00*8 02 00 00 00 00*4"},
      {{8, checksums{0, {0xE3069283, 0}}}, "04 00 20 00 08 00 00 00 00*8 02 00 00 00 00*4 83 92 06 e3 00*4"},
      {{9, renew{5}}, "05 00 10 00 09 00 00 00 05 00*7"},
      {{9, renewed{5, 30000}}, "06 00 18 00 09 00 00 00 05 00*7 30 75 00 00 00*4"},
      {{10, release{5, 4096}}, "07 00 18 00 0a 00 00 00 05 00*7 00 10 00*6"},
      {{10, released{5}}, "08 00 10 00 0a 00 00 00 05 00*7"},
      {{11, list{"demo"}}, "09 00 48 00 0b 00 00 00 64 65 6d 6f 00*60"},
      {{11, listing{{{"w", 4096, 1, false}}, true}},
       "0a 00 68 00 0b 00 00 00 01 00 00 00 01 00 00 00 77 00*63 00 10 00*6 01 00*7 00*4 00*4"},
      {{7, error{errc::unknown_buffer, "no"}}, "0b 00 0e 00 07 00 00 00 23 00 02 00 6e 6f"},
      {{0, ping{}}, "0c 00 08 00 00 00 00 00"},
      {{0, pong{}}, "0d 00 08 00 00 00 00 00"},
      {{0, notice{notice_kind::lease_revoked, errc::dropped_by_operator, 5, "bye"}},
       "0e 00 1d 00 00 00 00 00 02 00 2a 00 00*4 05 00*7 03 00 62 79 65"},
  };
}

}  // namespace gpurdma::protocol::test
