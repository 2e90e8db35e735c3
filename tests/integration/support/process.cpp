#include "tests/integration/support/process.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>

extern char** environ;  // NOLINT

namespace gpurdma::test {
namespace {

using clock = std::chrono::steady_clock;

std::string variable(const char* name, const char* otherwise) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

}  // namespace

process::process(const std::vector<std::string>& command) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (pipe2(in.data(), O_CLOEXEC) != 0 || pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) {
    throw std::runtime_error{"no pipes"};
  }
  posix_spawn_file_actions_t actions{};
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  auto copy = command;
  std::vector<char*> arguments;
  for (auto& argument : copy) {
    arguments.push_back(argument.data());
  }
  arguments.push_back(nullptr);
  const int result = posix_spawnp(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  in_fd_ = in[1];
  out_fd_ = out[0];
  err_fd_ = err[0];
  if (result != 0) {
    throw std::runtime_error{"cannot run " + command.front()};
  }
}

process::~process() {
  if (!status_) {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  if (testing::Test::HasFailure()) {
    std::fprintf(stderr, "--- standard error of %d:\n%s---\n", static_cast<int>(pid_), err_.c_str());
  }
  ::close(in_fd_);
  ::close(out_fd_);
  ::close(err_fd_);
}

process::pumped process::pump(std::chrono::milliseconds limit) {
  std::array<pollfd, 2> fds{pollfd{out_fd_, POLLIN, 0}, pollfd{err_fd_, POLLIN, 0}};
  if (poll(fds.data(), fds.size(), static_cast<int>(limit.count())) <= 0) {
    return pumped::nothing;
  }
  auto result = pumped::closed;
  for (const auto& [fd, events, happened] : fds) {
    std::array<char, 65536> bytes{};
    const auto size = happened != 0 ? ::read(fd, bytes.data(), bytes.size()) : 0;
    if (size > 0) {
      (fd == out_fd_ ? out_ : err_).append(bytes.data(), static_cast<std::size_t>(size));
      result = pumped::something;
    }
  }
  return result;
}

bool process::wait_for(const std::string& text, std::chrono::milliseconds limit) {
  const auto end = clock::now() + limit;
  const auto there = [&] { return out_.find(text) != std::string::npos || err_.find(text) != std::string::npos; };
  while (!there() && clock::now() < end && pump(100ms) != pumped::closed) {
  }
  return there();
}

std::size_t process::count(const std::string& text) {
  while (pump(0ms) == pumped::something) {
  }
  std::size_t found = 0;
  for (auto at = err_.find(text); at != std::string::npos; at = err_.find(text, at + text.size())) {
    ++found;
  }
  return found;
}

bool process::wait_for_count(const std::string& text, std::size_t wanted) {
  return eventually([&] { return count(text) >= wanted; });
}

std::optional<int> process::wait(std::chrono::milliseconds limit) {
  const auto end = clock::now() + limit;
  while (!status_ && clock::now() < end) {
    if (pump(20ms) == pumped::closed) {
      std::this_thread::sleep_for(5ms);
    }
    int raw = 0;
    if (::waitpid(pid_, &raw, WNOHANG) == pid_) {
      status_ = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
      while (pump(0ms) == pumped::something) {  // what it wrote last
      }
    }
  }
  return status_;
}

void process::signal(int number) const { ::kill(pid_, number); }

void process::say(const std::string& line) const {
  const auto text = line + "\n";
  if (::write(in_fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    throw std::runtime_error{"cannot write to the child"};
  }
}

std::size_t process::descriptors() const {
  const std::filesystem::directory_iterator all{"/proc/" + std::to_string(pid_) + "/fd"};
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

scratch_folder::scratch_folder() {
  auto name = (std::filesystem::temp_directory_path() / "gpurdma-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) {
    throw std::runtime_error{"no scratch folder"};
  }
  path_ = name;
}

scratch_folder::~scratch_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path scratch_folder::write(const std::string& name, const std::string& content) const {
  std::ofstream{path_ / name} << content;
  return path_ / name;
}

std::string server_program() { return GPURDMA_SERVER_PROGRAM; }
std::string server_with_fake_gpu_program() { return GPURDMA_SERVER_WITH_FAKE_GPU_PROGRAM; }
std::string reader_program() { return GPURDMA_READ_PROGRAM; }
std::string plain_reader_program() { return GPURDMA_PLAIN_READER_PROGRAM; }
std::string ctl_program() { return GPURDMA_CTL_PROGRAM; }
std::string self_address() { return variable("LAB_SELF", "127.0.0.1"); }

server_process::server_process(const std::string& settings, std::chrono::milliseconds limit,
                               const std::string& program) {
  rewrite(settings);
  program_.emplace(std::vector<std::string>{program, "--config", (folder_.path() / "server.yaml").string()});
  EXPECT_TRUE(program_->wait_for("server_ready", limit)) << program_->err();
}

void server_process::rewrite(const std::string& settings) const {
  auto text = settings;
  for (const auto& line : {std::string{"listen: [\"0.0.0.0:7471\"]\n"}, std::string{"security: { open: true }\n"},
                           "control: { socket: " + control_socket() + " }\n"}) {
    if (settings.find(line.substr(0, line.find(':') + 1)) == std::string::npos) {
      text += line;
    }
  }
  std::ignore = folder_.write("server.yaml", text);
}

finished server_process::ctl(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin(), {ctl_program(), "--socket", control_socket()});
  return run(arguments);
}

std::optional<int> server_process::stop() {
  program_->signal(SIGTERM);
  return program_->wait();
}

finished run(const std::vector<std::string>& command) {
  process p{command};
  const auto status = p.wait();
  EXPECT_TRUE(status.has_value()) << command.front() << " does not end";
  return {status.value_or(-1), p.out(), p.err()};
}

finished read_buffer(const std::string& target, std::vector<std::string> options) {
  options.insert(options.begin(), {reader_program(), target});
  return run(options);
}

std::string rdma_resources() {
  const auto shown = run({"rdma", "resource", "show"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  return shown.out;
}

bool resources_return_to(const std::string& expected) {
  std::string last;
  const bool same = eventually([&] { return (last = rdma_resources()) == expected; });
  EXPECT_EQ(last, expected);
  return same;
}

bool descriptors_return_to(const process& of, std::size_t expected) {
  const bool same = eventually([&] { return of.descriptors() == expected; });
  EXPECT_EQ(of.descriptors(), expected);
  return same;
}

}  // namespace gpurdma::test
