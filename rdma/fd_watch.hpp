#pragma once

// A descriptor that a library owns, awaited in Asio.

#include <boost/asio/io_context.hpp>
#include <functional>
#include <memory>

namespace gpurdma::rdma {

/// Makes the descriptor non-blocking, which rdma_cm and verbs leave to their user. Throws std::system_error.
void set_non_blocking(int fd);

/// Calls `on_readable` whenever the descriptor is readable, until stopped. Never closes it. The handler may leave
/// input behind: it is then called again.
class fd_watch {
 public:
  fd_watch(boost::asio::io_context& io, int fd, std::function<void()> on_readable);
  fd_watch(const fd_watch&) = delete;
  fd_watch& operator=(const fd_watch&) = delete;
  ~fd_watch();

  /// The handler is not called any more, not even if it was due; may be called by the handler.
  void stop();

 private:
  struct state;
  static void wait(const std::shared_ptr<state>& s);
  std::shared_ptr<state> state_;
};

}  // namespace gpurdma::rdma
