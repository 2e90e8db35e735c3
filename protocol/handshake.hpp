#pragma once

// What is said in rdma_cm's private data while a connection is made: hello in REQ, welcome in REP, refusal in REJ.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "protocol/codec.hpp"
#include "protocol/errc.hpp"

namespace gpurdma::protocol {

/// The one version that this code speaks.
inline constexpr std::uint8_t version = 1;

/// Private data that RDMA_PS_TCP carries, in bytes (kernel: CMA header leaves 56 of REQ's 92; REP 196; REJ 148). The
/// receiver sees its field zero-padded to the maximum, therefore each structure carries its own length.
inline constexpr std::size_t max_hello_size = 56;
inline constexpr std::size_t max_welcome_size = 196;
inline constexpr std::size_t max_refusal_size = 148;

/// Names a session; a further connection that presents it joins. 128 random bits: whoever knows it is let in.
using session_token = std::array<std::byte, 16>;
inline constexpr session_token no_session{};

/// Fresh random bytes of each side, for an authentication to bind to.
using nonce = std::array<std::byte, 16>;

struct hello {
  std::uint8_t lowest_version = version;
  std::uint8_t highest_version = version;
  session_token session = no_session;
  nonce client_nonce{};
  bool operator==(const hello&) const = default;
};

struct welcome {
  std::uint8_t version = protocol::version;
  std::uint64_t incarnation = 0;  ///< random at each start of the server: tells a restart
  session_token session = no_session;
  nonce server_nonce{};
  std::uint16_t max_request_size = protocol::max_request_size;  ///< bytes
  std::uint16_t max_reply_size = protocol::max_reply_size;      ///< bytes; the client's RECVs must be as long
  std::uint16_t credits = 1;                                    ///< requests that may be unanswered at once
  std::uint32_t silence_limit_ms = 0;  ///< the server drops a client of which it hears nothing for so long
  bool operator==(const welcome&) const = default;
};

struct refusal {
  std::uint8_t lowest_version = version;
  std::uint8_t highest_version = version;
  errc code = errc::unspecified;
  std::string sentence = {};
  bool operator==(const refusal&) const = default;
};

/// Each `bytes` may be longer than the structure, as rdma_cm delivers it. Errors: wrong_magic, malformed_handshake; of
/// a welcome also no_common_version, where the server chose a version that this code did not offer.
[[nodiscard]] result<hello> decode_hello(std::span<const std::byte> bytes);
[[nodiscard]] result<welcome> decode_welcome(std::span<const std::byte> bytes);
[[nodiscard]] result<refusal> decode_refusal(std::span<const std::byte> bytes);

[[nodiscard]] std::vector<std::byte> encode(const hello& h);
[[nodiscard]] std::vector<std::byte> encode(const welcome& w);
[[nodiscard]] std::vector<std::byte> encode(const refusal& r);

/// Whether this code speaks a version that `h` offers; no_common_version if not.
[[nodiscard]] std::error_code check_versions(const hello& h) noexcept;

}  // namespace gpurdma::protocol
