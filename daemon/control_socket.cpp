#include "daemon/control_socket.hpp"

#include <grp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/event.hpp"

namespace gpurdma::daemon {
namespace {

using boost::asio::local::stream_protocol;

constexpr std::size_t longest_request = 4096;
constexpr std::size_t most_calls = 16;
constexpr std::chrono::seconds time_for_a_line{5};

[[noreturn]] void fail(int error, const std::filesystem::path& path, const std::string& what) {
  throw std::system_error{error, std::system_category(), "control socket " + path.string() + ": " + what};
}

sockaddr_un address_of(const std::filesystem::path& path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof at.sun_path) {
    fail(ENAMETOOLONG, path, "the path is too long for a socket");
  }
  path.native().copy(at.sun_path, sizeof at.sun_path - 1);
  return at;
}

struct socket_fd {
  int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

  socket_fd() = default;
  socket_fd(const socket_fd&) = delete;
  socket_fd& operator=(const socket_fd&) = delete;
  ~socket_fd() {
    if (fd >= 0) {
      ::close(fd);
    }
  }
};

/// Removes a socket that a crashed server left. Leaves everything else alone.
void remove_stale(const std::filesystem::path& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    return;
  }
  if (!S_ISSOCK(status.st_mode)) {
    fail(EEXIST, path, "something that is no socket has this name; remove it, or name another in control: socket");
  }
  const socket_fd probe;
  auto at = address_of(path);
  if (connect(probe.fd, std::bit_cast<sockaddr*>(&at), sizeof at) == 0 || errno == EAGAIN) {
    fail(EADDRINUSE, path, "another server answers there; stop it, or name another socket in control: socket");
  }
  if (errno == ECONNREFUSED) {
    ::unlink(path.c_str());
  }
}

void give_to_group(const std::filesystem::path& path, const std::string& name) {
  const auto* const group = getgrnam(name.c_str());
  if (group == nullptr) {
    fail(ENOENT, path, "there is no group '" + name + "' (control: group)");
  }
  if (chown(path.c_str(), static_cast<uid_t>(-1), group->gr_gid) != 0) {
    fail(errno, path, "cannot give it to group '" + name + "'; the server's user must be a member");
  }
}

int make_socket(const std::filesystem::path& path, const std::string& group) {
  constexpr mode_t mode = 0660;
  remove_stale(path);
  socket_fd made;
  auto at = address_of(path);
  // The mode of the unbound socket becomes the file's, so at no time is it open to more.
  if (made.fd < 0 || fchmod(made.fd, mode) != 0) {
    fail(errno, path, "cannot make a socket");
  }
  if (bind(made.fd, std::bit_cast<sockaddr*>(&at), sizeof at) != 0) {
    fail(errno, path, "cannot be made; does its folder exist, and may the server write there?");
  }
  try {
    if (!group.empty()) {
      give_to_group(path, group);
    }
    if (chmod(path.c_str(), mode) != 0 || ::listen(made.fd, most_calls) != 0) {
      fail(errno, path, "cannot be used");
    }
  } catch (...) {
    ::unlink(path.c_str());
    throw;
  }
  return std::exchange(made.fd, -1);
}

/// The mode of the file keeps others out already; but a descriptor can be handed on, and a folder's mount can ignore
/// modes.
bool may_call(int fd, const std::filesystem::path& path, uid_t& who) {
  ucred peer{};
  socklen_t size = sizeof peer;
  struct stat status {};
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || stat(path.c_str(), &status) != 0) {
    return false;
  }
  who = peer.uid;
  if (peer.uid == 0 || peer.uid == geteuid() || peer.gid == status.st_gid) {
    return true;
  }
  std::vector<gid_t> groups(1024);
  size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
  if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) != 0) {
    return false;
  }
  groups.resize(size / sizeof(gid_t));
  return std::find(groups.begin(), groups.end(), status.st_gid) != groups.end();
}

boost::json::object bad_request(std::string_view why) { return {{"result", "refused"}, {"error", why}}; }

}  // namespace

struct control_socket::state : std::enable_shared_from_this<state> {
  boost::asio::io_context& io;
  std::filesystem::path path;
  handler on_request;
  stream_protocol::acceptor listening;
  std::set<std::shared_ptr<call>> calls;
  boost::asio::steady_timer pause;
  bool accepting = false;

  state(boost::asio::io_context& in, std::filesystem::path at, handler h, int fd)
      : io{in}, path{std::move(at)}, on_request{std::move(h)}, listening{in, stream_protocol{}, fd}, pause{in} {}

  void accept();
  void accept_later();
  void end(const std::shared_ptr<call>& c) {
    calls.erase(c);
    accept();
  }
};

class control_socket::call : public std::enable_shared_from_this<call> {
 public:
  call(std::shared_ptr<state> of, stream_protocol::socket&& peer)
      : of_{std::move(of)}, peer_{std::move(peer)}, deadline_{of_->io} {}

  void read() {
    limit_time();
    boost::asio::async_read_until(peer_, boost::asio::dynamic_buffer(text_, longest_request), '\n',
                                  [self = shared_from_this()](const boost::system::error_code& error,
                                                              std::size_t size) { self->on_read(error, size); });
  }

  void close() {
    boost::system::error_code ignored;
    peer_.close(ignored);
    deadline_.cancel();
  }

 private:
  void on_read(const boost::system::error_code& error, std::size_t size) {
    if (!peer_.is_open()) {  // its time was over meanwhile, or the socket is no more
      end();
      return;
    }
    if (error == boost::asio::error::not_found) {
      answer(bad_request("the request is longer than 4096 bytes"));
      return;
    }
    if (error) {
      end();
      return;
    }
    boost::json::error_code why;
    auto request = boost::json::parse(boost::json::string_view{text_}.substr(0, size - 1), why);
    if (why || !request.is_object()) {
      answer(bad_request("the request is no JSON object on one line"));
      return;
    }
    deadline_.cancel();  // what is asked for may take long
    end_when_peer_goes();
    of_->on_request(request.get_object(),
                    [self = shared_from_this()](boost::json::object o) { self->answer(std::move(o)); });
  }

  /// Nobody is waiting for the answer then. One that only ends its sending waits on.
  void end_when_peer_goes() {
    peer_.async_wait(stream_protocol::socket::wait_error,
                     [self = shared_from_this()](const boost::system::error_code& error) {
                       if (!error) {
                         self->end();
                       }
                     });
  }

  void answer(const boost::json::object& what) {
    if (!peer_.is_open()) {
      end();
      return;
    }
    text_ = boost::json::serialize(what) + "\n";
    limit_time();
    boost::asio::async_write(
        peer_, boost::asio::buffer(text_),
        [self = shared_from_this()](const boost::system::error_code&, std::size_t) { self->end(); });
  }

  void limit_time() {
    deadline_.expires_after(time_for_a_line);
    deadline_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      const auto self = weak.lock();
      if (!error && self) {
        self->close();  // the read or write under way ends, and with it the call
      }
    });
  }

  void end() {
    close();
    of_->end(shared_from_this());
  }

  std::shared_ptr<state> of_;
  stream_protocol::socket peer_;
  boost::asio::steady_timer deadline_;
  std::string text_;
};

void control_socket::state::accept() {
  if (accepting || calls.size() >= most_calls || !listening.is_open()) {
    return;
  }
  accepting = true;
  listening.async_accept(
      [self = shared_from_this()](const boost::system::error_code& error, stream_protocol::socket peer) {
        self->accepting = false;
        if (error == boost::asio::error::operation_aborted) {
          return;
        }
        uid_t who = 0;
        if (error) {
          emit(event_id::control_refused, {{"why", error.message()}});
          self->accept_later();
          return;
        }
        if (!may_call(peer.native_handle(), self->path, who)) {
          emit(event_id::control_refused, {{"uid", who}, {"why", "neither root, nor the server's user or group"}});
        } else {
          const auto made = std::make_shared<call>(self, std::move(peer));
          self->calls.insert(made);
          made->read();
        }
        self->accept();
      });
}

void control_socket::state::accept_later() {
  // Most likely no descriptor is free, which may last.
  accepting = true;
  pause.expires_after(std::chrono::seconds{1});
  pause.async_wait([self = shared_from_this()](const boost::system::error_code&) {
    self->accepting = false;
    self->accept();
  });
}

control_socket::control_socket(boost::asio::io_context& io, std::filesystem::path path, const std::string& group,
                               handler on_request)
    : path_{std::move(path)} {
  state_ = std::make_shared<state>(io, path_, std::move(on_request), make_socket(path_, group));
  state_->accept();
}

control_socket::~control_socket() { close(); }

void control_socket::close() {
  if (!state_) {
    return;
  }
  boost::system::error_code ignored;
  state_->listening.close(ignored);
  state_->pause.cancel();
  ::unlink(path_.c_str());
  for (const auto& c : std::exchange(state_->calls, {})) {
    c->close();
  }
  state_->on_request = nullptr;
  state_.reset();
}

}  // namespace gpurdma::daemon
