// Any bytes as each of the three structures of the handshake.

#include <algorithm>
#include <optional>
#include <type_traits>

#include "protocol/handshake.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace gpurdma::protocol {
namespace {

using fuzz::require;

constexpr std::ptrdiff_t length_place = 4;
constexpr std::ptrdiff_t code_place = 8;

/// `decode` is that of T, whose encoding may have `most` bytes.
template <typename T>
std::optional<T> check_one(std::span<const std::byte> input, result<T> (*decode)(std::span<const std::byte>),
                           std::size_t most) {
  const auto decoded = decode(input);
  if (!decoded) {
    const auto why = decoded.error();
    require(why == errc::wrong_magic || why == errc::malformed_handshake ||
                (why == errc::no_common_version && std::is_same_v<T, welcome>),
            "only the errors that are documented");
    return std::nullopt;
  }
  auto encoded = encode(*decoded);
  require(encoded.size() <= most, "it fits into the private data");
  const auto again = decode(encoded);
  require(again && *again == *decoded, "what was encoded is decoded to the same");

  // rdma_cm delivers it so.
  encoded.resize(most);
  const auto padded = decode(encoded);
  require(padded && *padded == *decoded, "zeros behind it do not matter");
  return *decoded;
}

/// A later version may append fields and have codes that this one does not know; all else is what stood in `input`.
void require_same(fuzz::bytes encoded, std::span<const std::byte> input, bool code_may_differ) {
  require(encoded.size() <= input.size(), "nothing was made up");
  const auto take = [&](std::ptrdiff_t place) { std::copy_n(input.begin() + place, 2, encoded.begin() + place); };
  take(length_place);
  if (code_may_differ) {
    take(code_place);
  }
  require(std::equal(encoded.begin(), encoded.end(), input.begin()), "what was decoded is encoded to the same bytes");
}

void check(std::span<const std::byte> input) {
  if (const auto h = check_one<hello>(input, decode_hello, max_hello_size)) {
    require_same(encode(*h), input, false);
    require(!check_versions(*h) == (h->lowest_version == version), "only version 1 is spoken, and none is below it");
  }
  if (const auto w = check_one<welcome>(input, decode_welcome, max_welcome_size)) {
    require_same(encode(*w), input, false);
    require(w->credits >= 1 && w->max_request_size >= max_request_size && w->max_reply_size <= max_reply_size,
            "its limits are such that this client can live with them");
  }
  if (const auto r = check_one<refusal>(input, decode_refusal, max_refusal_size)) {
    require_same(encode(*r), input, r->code == errc::unspecified);
  }
}

}  // namespace
}  // namespace gpurdma::protocol

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpurdma::protocol::check(gpurdma::fuzz::input(data, size));
  return 0;
}
