#include "rdma/error.hpp"

#include <cerrno>

namespace gpurdma::rdma {
namespace {

class completion_errors final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "wc"; }
  [[nodiscard]] std::string message(int value) const override {
    return ibv_wc_status_str(static_cast<ibv_wc_status>(value));
  }
};

class connection_errors final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "cm"; }
  [[nodiscard]] std::string message(int value) const override {
    switch (static_cast<connection_error>(value)) {
      case connection_error::address_not_resolved:
        return "the address cannot be resolved to an RDMA device";
      case connection_error::route_not_resolved:
        return "there is no route to the address";
      case connection_error::unreachable:
        return "the peer cannot be reached";
      case connection_error::refused:
        return "the connection was refused: no gpurdma-server listens there";
      case connection_error::rejected:
        return "the peer's connection manager rejected the connection";
      case connection_error::given_up:
        return "the peer gave up connecting";
      case connection_error::failed:
        return "the connection could not be made";
      case connection_error::disconnected:
        return "the peer disconnected";
      case connection_error::device_removed:
        return "the RDMA device was removed";
      case connection_error::timed_out:
        return "timed out";
      case connection_error::closed:
        return "closed by this side";
    }
    return "unknown connection error " + std::to_string(value);
  }
};

}  // namespace

std::error_code last_error() noexcept { return {errno, std::system_category()}; }
std::error_code check_errno(int result) noexcept { return result == 0 ? std::error_code{} : last_error(); }
std::error_code check_number(int result) noexcept { return {result, std::system_category()}; }

void fail(std::error_code why, const std::string& what) { throw std::system_error{why, what}; }

const std::error_category& completion_category() noexcept {
  static const completion_errors instance;
  return instance;
}

const std::error_category& connection_category() noexcept {
  static const connection_errors instance;
  return instance;
}

std::error_code make_error_code(connection_error e) noexcept { return {static_cast<int>(e), connection_category()}; }

std::error_code make_error_code_of(ibv_wc_status status) noexcept {
  return {static_cast<int>(status), completion_category()};
}

}  // namespace gpurdma::rdma
