#pragma once

// The three ways in which verbs and rdma_cm report failure, and categories for their own kinds of error.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <string>
#include <system_error>

namespace gpurdma::rdma {

/// For calls that return NULL, or -1, and set errno (rdma_*, ibv_create_*, ibv_reg_mr).
[[nodiscard]] std::error_code last_error() noexcept;
/// For calls that return -1 and set errno, or 0.
[[nodiscard]] std::error_code check_errno(int result) noexcept;
/// For calls that return the error number itself, or 0 (ibv_post_*, ibv_modify_qp, ibv_query_*).
[[nodiscard]] std::error_code check_number(int result) noexcept;

[[noreturn]] void fail(std::error_code why, const std::string& what);

/// Values are ibv_wc_status.
[[nodiscard]] const std::error_category& completion_category() noexcept;
/// Values are those of connection_error.
[[nodiscard]] const std::error_category& connection_category() noexcept;

/// How a connection was not made, or ended.
enum class connection_error {
  address_not_resolved = 1,
  route_not_resolved,
  unreachable,
  refused,       ///< nobody listens there
  rejected,      ///< by the peer or its connection manager
  given_up,      ///< by the peer, which had asked for it
  failed,        ///< rdma_cm reports a connect error
  disconnected,  ///< by the peer
  device_removed,
  timed_out,
  closed,  ///< by this side
};
[[nodiscard]] std::error_code make_error_code(connection_error e) noexcept;
[[nodiscard]] std::error_code make_error_code_of(ibv_wc_status status) noexcept;

}  // namespace gpurdma::rdma

template <>
struct std::is_error_code_enum<gpurdma::rdma::connection_error> : std::true_type {};
