#pragma once

// The local socket on which an operator's requests come in: mechanism, knows no command.

#include <boost/asio/io_context.hpp>
#include <boost/json/object.hpp>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace gpurdma::daemon {

/// One request per connection: a JSON object on one line of at most 4 KiB, sent within 5 s; the answer likewise on one
/// line, after which the server closes. At most 16 connections at once, others wait to be accepted.
class control_socket {
 public:
  using answer = std::function<void(boost::json::object)>;
  using handler = std::function<void(const boost::json::object& request, answer then)>;

  /// Makes the socket at `path`, mode 0660, for root, the server's user and `group` (empty: the server's own). One that
  /// a crash left is replaced. Throws std::system_error, with EADDRINUSE where another server answers there.
  control_socket(boost::asio::io_context& io, std::filesystem::path path, const std::string& group, handler on_request);
  control_socket(const control_socket&) = delete;
  control_socket& operator=(const control_socket&) = delete;
  ~control_socket();

  /// Removes the socket and drops calls that were not answered. The reactor no longer waits for it.
  void close();
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  class call;
  struct state;

  std::filesystem::path path_;
  std::shared_ptr<state> state_;
};

}  // namespace gpurdma::daemon
