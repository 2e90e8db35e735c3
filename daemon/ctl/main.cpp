// gpurdma-ctl: asks a running gpurdma-server on this machine, over its control socket.

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <bit>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>

#include "daemon/ctl/tables.hpp"

namespace {

namespace json = boost::json;
using clock_type = std::chrono::steady_clock;

// Exit statuses, as docs/operations.md lists them.
enum exit_status { done = 0, usage = 1, cannot_reach = 2, refused = 3, incomplete = 4, damaged = 5 };

class call {
 public:
  call(const std::string& path, std::chrono::seconds limit) : end_{clock_type::now() + limit} {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    if (path.size() >= sizeof at.sun_path) {
      throw std::system_error{ENAMETOOLONG, std::system_category()};
    }
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    if (fd_ < 0 || connect(fd_, std::bit_cast<sockaddr*>(&at), sizeof at) != 0) {
      const int why = errno;
      ::close(fd_);
      throw std::system_error{why, std::system_category()};
    }
  }
  call(const call&) = delete;
  call& operator=(const call&) = delete;
  ~call() { ::close(fd_); }

  std::string ask(const std::string& request) {
    if (::send(fd_, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
      throw std::system_error{errno, std::system_category()};
    }
    std::string answer;
    while (!answer.ends_with('\n')) {
      wait();
      std::array<char, 65536> part{};
      const auto size = ::recv(fd_, part.data(), part.size(), 0);
      if (size == 0) {
        throw std::runtime_error{"it hung up without an answer; its log may say why"};
      }
      if (size < 0) {
        throw std::system_error{errno, std::system_category()};
      }
      answer.append(part.data(), static_cast<std::size_t>(size));
    }
    return answer;
  }

 private:
  void wait() const {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - clock_type::now());
    pollfd readable{fd_, POLLIN, 0};
    const int result = left.count() > 0 ? poll(&readable, 1, static_cast<int>(left.count())) : 0;
    if (result < 0) {
      throw std::system_error{errno, std::system_category()};
    }
    if (result == 0) {
      throw std::runtime_error{"no answer in time (--timeout)"};
    }
  }

  clock_type::time_point end_;
  int fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
};

struct options {
  std::string socket = "/run/gpurdma/control.sock";
  bool json = false;
  std::uint32_t timeout = 0;  ///< seconds
  std::uint64_t client = 0;
  std::string buffer;
  std::string republish;
  std::string command;
};

/// Nothing to do where it returns false, with `status` set.
bool parse(int argc, char** argv, options& to, int& status) {
  CLI::App app{"Asks a running gpurdma-server on this machine."};
  app.name("gpurdma-ctl");
  app.set_version_flag("--version", std::string{"gpurdma-ctl "} + GPURDMA_VERSION);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--socket", to.socket, "The server's control socket")->capture_default_str();
  app.add_flag("--json", to.json, "Print the server's answer as one JSON object");
  app.add_option("--timeout", to.timeout, "Seconds to wait for the answer (10; verify and reload: 3600)")
      ->check(CLI::Range(1, 86'400));
  app.add_subcommand("status", "Whether the server serves, and how much");
  app.add_subcommand("buffers", "Buffers, their versions and leases");
  app.add_subcommand("clients", "Clients and what they hold");
  app.add_subcommand("drop", "Cut a client off")->add_option("CLIENT", to.client, "Its number")->required();
  app.add_subcommand("verify", "Compare memory with the checksums taken when it was loaded")
      ->add_option("BUFFER", to.buffer, "This buffer only");
  app.add_subcommand("reload", "Read the configuration again and bring it into force")
      ->add_option("--republish", to.republish, "Make a new version of this buffer even where nothing changed");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    status = app.exit(e) == 0 ? done : usage;
    return false;
  }
  to.command = app.get_subcommands().front()->get_name();
  if (to.timeout == 0) {
    to.timeout = to.command == "verify" || to.command == "reload" ? 3600 : 10;
  }
  return true;
}

std::string request_of(const options& o) {
  json::object request{{"command", o.command}};
  if (o.command == "drop") {
    request["client"] = o.client;
  }
  if (!o.buffer.empty()) {
    request["buffer"] = o.buffer;
  }
  if (!o.republish.empty()) {
    request["republish"] = o.republish;
  }
  return json::serialize(request) + "\n";
}

exit_status report(const options& o, const std::string& text) {
  const auto parsed = json::parse(text);
  const auto& answer = parsed.as_object();
  const auto* const found = answer.if_contains("result");
  const std::string result = found != nullptr && found->is_string() ? found->get_string().c_str() : "";
  if (o.json) {
    std::fputs(text.c_str(), stdout);
  } else if (result == "refused") {
    const auto* const why = answer.if_contains("error");
    std::fprintf(stderr, "gpurdma-ctl: %s\n",
                 why != nullptr && why->is_string() ? why->get_string().c_str() : "refused");
  } else {
    std::fputs(gpurdma::ctl::describe(o.command, answer).c_str(), stdout);
  }
  if (result == "done") {
    return done;
  }
  return result == "incomplete" ? incomplete : result == "damaged" ? damaged : refused;
}

std::string hint(const std::error_code& why) {
  if (why == std::errc::permission_denied) {
    return "; root, the server's user and its control group may (control: group)";
  }
  if (why == std::errc::no_such_file_or_directory || why == std::errc::connection_refused) {
    return "; is gpurdma-server running, and is this its socket (--socket)?";
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  options o;
  int status = 0;
  if (!parse(argc, argv, o, status)) {
    return status;
  }
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  const auto fail = [&](const std::string& why) {
    std::fprintf(stderr, "gpurdma-ctl: cannot ask the server at %s: %s\n", o.socket.c_str(), why.c_str());
    return cannot_reach;
  };
  try {
    call server{o.socket, std::chrono::seconds{o.timeout}};
    status = report(o, server.ask(request_of(o)));
    return std::fflush(stdout) == 0 ? status : fail("cannot write standard output");
  } catch (const std::system_error& e) {
    return fail(e.code().message() + hint(e.code()));
  } catch (const std::exception& e) {
    return fail(e.what());
  }
}
