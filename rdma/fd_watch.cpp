#include "rdma/fd_watch.hpp"

#include <fcntl.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

#include "rdma/error.hpp"

namespace gpurdma::rdma {

void set_non_blocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    fail(last_error(), "cannot make a descriptor non-blocking");
  }
}

struct fd_watch::state {
  boost::asio::posix::stream_descriptor descriptor;
  std::function<void()> on_readable;
};

fd_watch::fd_watch(boost::asio::io_context& io, int fd, std::function<void()> on_readable)
    : state_{std::make_shared<state>(state{boost::asio::posix::stream_descriptor{io, fd}, std::move(on_readable)})} {
  wait(state_);
}

fd_watch::~fd_watch() { stop(); }

void fd_watch::stop() {
  if (state_ && state_->descriptor.is_open()) {
    // release() gives the descriptor back without closing it and cancels the wait.
    state_->descriptor.release();
  }
  state_.reset();
}

void fd_watch::wait(const std::shared_ptr<state>& s) {
  // Asio's reactor is edge-triggered, but starting a wait re-arms the descriptor (epoll_ctl MOD), so input that is
  // there already completes the wait at once.
  s->descriptor.async_wait(boost::asio::posix::stream_descriptor::wait_read, [s](boost::system::error_code error) {
    if (error || !s->descriptor.is_open()) {
      return;
    }
    s->on_readable();
    if (s->descriptor.is_open()) {
      wait(s);
    }
  });
}

}  // namespace gpurdma::rdma
