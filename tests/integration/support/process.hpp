#pragma once

// Programs under test, as their users run them.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace gpurdma::test {

using namespace std::chrono_literals;

/// Generous: emulated machines are slow, and a test that waits so long has failed.
inline constexpr std::chrono::seconds patience{40};

/// Waits until `condition` holds, looking now and then; false after the patience.
template <typename Condition>
[[nodiscard]] bool eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) {
      return false;
    }
    std::this_thread::sleep_for(20ms);
  }
  return true;
}

/// A child process with its standard output and error in pipes. Killed if it still runs at the end.
class process {
 public:
  explicit process(const std::vector<std::string>& command);
  process(const process&) = delete;
  process& operator=(const process&) = delete;
  ~process();

  /// Whether `text` appeared in standard output or error, now or before `limit` is over.
  [[nodiscard]] bool wait_for(const std::string& text, std::chrono::milliseconds limit = patience);
  /// The same for `count` times.
  [[nodiscard]] bool wait_for_count(const std::string& text, std::size_t count);
  /// How often `text` appeared so far.
  [[nodiscard]] std::size_t count(const std::string& text);
  /// The exit status, 128 + n for a signal; nothing if it still runs after `limit`.
  [[nodiscard]] std::optional<int> wait(std::chrono::milliseconds limit = patience);
  void signal(int number) const;
  /// Writes a line to its standard input.
  void say(const std::string& line) const;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] const std::string& out() const noexcept { return out_; }
  [[nodiscard]] const std::string& err() const noexcept { return err_; }
  [[nodiscard]] std::size_t descriptors() const;

 private:
  enum class pumped { something, nothing, closed };
  /// Takes what is in the pipes, waiting up to `limit` for something.
  pumped pump(std::chrono::milliseconds limit);

  pid_t pid_ = -1;
  int in_fd_ = -1;
  int out_fd_ = -1;
  int err_fd_ = -1;
  std::string out_;
  std::string err_;
  std::optional<int> status_;
};

/// A folder that is gone at the end.
class scratch_folder {
 public:
  scratch_folder();
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder();
  [[nodiscard]] std::filesystem::path write(const std::string& name, const std::string& content) const;
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// The built programs, and the address of this machine's RDMA device.
[[nodiscard]] std::string server_program();
[[nodiscard]] std::string server_with_fake_gpu_program();
[[nodiscard]] std::string reader_program();
[[nodiscard]] std::string plain_reader_program();
[[nodiscard]] std::string ctl_program();
[[nodiscard]] std::string self_address();

/// What a command that ran to its end left.
struct finished {
  int status = -1;
  std::string out;
  std::string err;
};

/// A running gpurdma-server.
class server_process {
 public:
  /// `settings` is the YAML but for listen, security and control, which are given where it does not name them. Expects
  /// that the server becomes ready.
  explicit server_process(const std::string& settings, std::chrono::milliseconds limit = patience,
                          const std::string& program = server_program());

  [[nodiscard]] process& program() noexcept { return *program_; }
  /// SIGTERM; the exit status, or nothing if it does not end.
  [[nodiscard]] std::optional<int> stop();

  /// Gives its file other settings, which a reload brings into force.
  void rewrite(const std::string& settings) const;
  [[nodiscard]] std::string control_socket() const { return (folder_.path() / "control.sock").string(); }
  /// Runs gpurdma-ctl on it.
  [[nodiscard]] finished ctl(std::vector<std::string> arguments) const;

 private:
  scratch_folder folder_;
  std::optional<process> program_;
};

/// Runs a command to its end.
[[nodiscard]] finished run(const std::vector<std::string>& command);
[[nodiscard]] finished read_buffer(const std::string& target, std::vector<std::string> options = {});

/// What the kernel counts of the RDMA device: "pd 1 cq 1 qp 1 …".
[[nodiscard]] std::string rdma_resources();
/// Whether rdma_resources() becomes `expected` within the patience.
[[nodiscard]] bool resources_return_to(const std::string& expected);
/// Whether the process's descriptors come back to `expected`.
[[nodiscard]] bool descriptors_return_to(const process& of, std::size_t expected);

}  // namespace gpurdma::test
