// Any bytes as a message.

#include <optional>

#include "protocol/codec.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace gpurdma::protocol {
namespace {

using fuzz::require;

/// Where the code stands in a message that has one and whose code was read as `unspecified`.
std::optional<std::size_t> place_of_unspecified_code(const body& content) {
  if (const auto* const e = std::get_if<error>(&content); e != nullptr && e->code == errc::unspecified) {
    return 8;
  }
  if (const auto* const n = std::get_if<notice>(&content); n != nullptr && n->code == errc::unspecified) {
    return 10;
  }
  return std::nullopt;
}

void check(std::span<const std::byte> input) {
  const auto decoded = decode(input);
  if (!decoded) {
    require(decoded.error() == errc::malformed_message, "the only error is malformed_message");
    return;
  }
  const auto encoded = encode(*decoded);
  require(encoded.size() <= max_reply_size, "no message is longer than a reply may be");

  fuzz::bytes expected{input.begin(), input.end()};
  if (const auto place = place_of_unspecified_code(decoded->content)) {
    expected.at(*place) = static_cast<std::byte>(errc::unspecified);
    expected.at(*place + 1) = std::byte{0};
  }
  require(encoded == expected, "what was decoded is encoded to the same bytes, but for an unknown code");

  const auto again = decode(encoded);
  require(again && *again == *decoded, "what was encoded is decoded to the same message");
}

}  // namespace
}  // namespace gpurdma::protocol

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpurdma::protocol::check(gpurdma::fuzz::input(data, size));
  return 0;
}
