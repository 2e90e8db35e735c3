#pragma once

// The reasons for which a gpurdma peer refuses, and the error category that names them.

#include <cstdint>
#include <string_view>
#include <system_error>

namespace gpurdma::protocol {

/// Refusals and violations. The numbers are those on the wire (docs/protocol.md, "Codes") and never change their
/// meaning; a number that this version does not know is read as `unspecified`.
enum class errc : std::uint16_t {
  unspecified = 1,

  // of the handshake (in REJ private data)
  wrong_magic = 16,
  no_common_version = 17,
  malformed_handshake = 18,
  too_many_clients = 19,
  unknown_session = 20,
  out_of_resources = 21,
  shutting_down = 22,
  too_many_connections = 23,

  // of a request (in an error message)
  malformed_message = 32,
  unexpected_message = 33,
  too_many_requests = 34,
  unknown_buffer = 35,
  range_outside_buffer = 36,
  too_many_leases = 37,
  unknown_lease = 38,
  lease_expired = 39,
  version_replaced = 40,
  buffer_unavailable = 41,
  dropped_by_operator = 42,

  // known to one side only, never sent
  peer_silent = 64,
  reply_overdue = 65,
  answers_not_taken = 66,
};

/// "unknown_buffer" and the like: the stable name used in logs and in docs/protocol.md.
[[nodiscard]] std::string_view name_of(errc code) noexcept;

/// The code for a number from the wire; `unspecified` for one that this version does not know, and for one that is
/// never sent.
[[nodiscard]] errc errc_from_wire(std::uint16_t number) noexcept;

[[nodiscard]] const std::error_category& protocol_category() noexcept;
[[nodiscard]] std::error_code make_error_code(errc code) noexcept;

}  // namespace gpurdma::protocol

template <>
struct std::is_error_code_enum<gpurdma::protocol::errc> : std::true_type {};
