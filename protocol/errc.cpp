#include "protocol/errc.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace gpurdma::protocol {
namespace {

struct entry {
  errc code;
  std::string_view name;
  std::string_view sentence;
};

constexpr std::array table{
    entry{errc::unspecified, "unspecified", "refused without a reason that this version knows"},
    entry{errc::wrong_magic, "wrong_magic", "the connection request does not begin with gpurdma's magic"},
    entry{errc::no_common_version, "no_common_version", "client and server speak no protocol version in common"},
    entry{errc::malformed_handshake, "malformed_handshake", "the handshake is malformed"},
    entry{errc::too_many_clients, "too_many_clients", "the server's limit of clients is reached"},
    entry{errc::unknown_session, "unknown_session", "the server knows no session with this token"},
    entry{errc::out_of_resources, "out_of_resources", "the server or its adapter is out of resources"},
    entry{errc::shutting_down, "shutting_down", "the server is shutting down"},
    entry{errc::too_many_connections, "too_many_connections", "the session has as many connections as it may have"},
    entry{errc::malformed_message, "malformed_message", "a message is malformed"},
    entry{errc::unexpected_message, "unexpected_message", "a message was not expected here"},
    entry{errc::too_many_requests, "too_many_requests", "more requests are unanswered than were granted"},
    entry{errc::unknown_buffer, "unknown_buffer", "there is no buffer of this name"},
    entry{errc::range_outside_buffer, "range_outside_buffer", "the range is empty or lies outside the buffer"},
    entry{errc::too_many_leases, "too_many_leases", "the session holds as many leases as it may hold"},
    entry{errc::unknown_lease, "unknown_lease", "the session holds no such lease"},
    entry{errc::lease_expired, "lease_expired", "the lease was not renewed in time"},
    entry{errc::version_replaced, "version_replaced", "the buffer has a newer version and the grace time is over"},
    entry{errc::buffer_unavailable, "buffer_unavailable", "the buffer is out of service"},
    entry{errc::dropped_by_operator, "dropped_by_operator", "the operator dropped this client"},
    entry{errc::peer_silent, "peer_silent", "nothing was heard from the peer for too long"},
    entry{errc::reply_overdue, "reply_overdue", "the peer did not answer a request in time"},
    entry{errc::answers_not_taken, "answers_not_taken", "the peer does not take the answers to its requests"},
};

constexpr auto first_local = static_cast<std::uint16_t>(errc::peer_silent);

const entry* find(errc code) noexcept {
  const auto* const found = std::find_if(table.begin(), table.end(), [&](const entry& e) { return e.code == code; });
  return found == table.end() ? nullptr : found;
}

class category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "gpurdma"; }
  [[nodiscard]] std::string message(int value) const override {
    const auto* const e = find(static_cast<errc>(value));
    return e != nullptr ? std::string{e->sentence} : "unknown code " + std::to_string(value);
  }
};

}  // namespace

std::string_view name_of(errc code) noexcept {
  const auto* const e = find(code);
  return e != nullptr ? e->name : "unspecified";
}

errc errc_from_wire(std::uint16_t number) noexcept {
  const auto* const e = find(static_cast<errc>(number));
  // A peer cannot tell us what only we can know.
  return e != nullptr && number < first_local ? e->code : errc::unspecified;
}

const std::error_category& protocol_category() noexcept {
  static const category instance;
  return instance;
}

std::error_code make_error_code(errc code) noexcept { return {static_cast<int>(code), protocol_category()}; }

}  // namespace gpurdma::protocol
