// What goes wrong with GPUs, said clearly, and the rest goes on.

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "memory/byte_size.hpp"
#include "memory/cuda_memory.hpp"
#include "memory/loader.hpp"
#include "tests/gpu/bare_cuda.hpp"
#include "tests/gpu/report.hpp"

extern char** environ;

namespace gpurdma::gpu_report {
namespace {

using memory::cuda_memory;

/// This program again, with an option; its standard input and output are pipes to here.
class child {
 public:
  child(const context& c, std::string option, std::string value) {
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    require(pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0, "no pipe");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    auto program = c.program;
    auto gpu_option = std::string{"--gpu"};
    auto gpu = std::to_string(c.gpu->info().index);
    std::array<char*, 6> arguments{program.data(), gpu_option.data(), gpu.data(), option.data(), value.data(), nullptr};
    const auto error = posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    require(error == 0, "cannot start " + program);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child() { static_cast<void>(finish()); }

  /// The next line of its output; empty at its end.
  std::string read_line() const {
    std::string line;
    for (char c = 0; ::read(from_, &c, 1) == 1 && c != '\n';) {
      line += c;
    }
    return line;
  }
  /// Closes its input, waits for its end. The exit status, or 128 + the signal.
  int finish() {
    if (pid_ > 0) {
      ::close(to_);
      waitpid(pid_, &status_, 0);
      ::close(from_);
      pid_ = 0;
    }
    return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
  }

 private:
  pid_t pid_ = 0;
  int to_ = -1;
  int from_ = -1;
  int status_ = 0;
};

void expect_all_well(const context& c) {
  cuda_memory m{c.gpu, 3 * MiB + 1};
  const auto sums = memory::load(m, memory::counting_fill{}, {});
  require(memory::checksum(m, {}) == sums, "after the error a buffer's checksum is wrong");
  c.gpu->check();
}

std::string run_out_of_memory(const context& c) {
  cuda_memory served{c.gpu, 64 * MiB};
  const auto sums = memory::load(served, memory::counting_fill{}, {});
  const auto error = error_of([&] { const cuda_memory m{c.gpu, c.gpu->info().bytes + GiB}; });
  require(error.code() == std::errc::not_enough_memory, std::string{"another error: "} + error.what());
  require(memory::checksum(served, {}) == sums, "another buffer has changed");
  expect_all_well(c);
  return error.what();
}

std::string name_wrong_gpus() {
  std::string last;
  for (const auto* const selector : {"9999", "-1", "GPU-ffffffff-0000", "ffff:ff:1f.0", "H200"}) {
    const auto error = error_of([&] { static_cast<void>(memory::find_gpu(selector)); });
    require(error.code() == std::errc::no_such_device, std::string{"another error: "} + error.what());
    last = error.what();
  }
  return last;
}

std::string name_right_gpu(const context& c) {
  const auto& info = c.gpu->info();
  for (const auto& selector : {std::to_string(info.index), info.uuid, info.pci_address}) {
    require(memory::find_gpu(selector) == c.gpu, selector + " is not the same GPU");
  }
  return info.uuid + ", " + info.pci_address;
}

std::string share_busy_gpu(const context& c) {
  const auto before = c.gpu->free_bytes();
  child holder{c, "--hold", std::to_string(2 * GiB)};
  require(holder.read_line() == "holding", "the other process could not take the memory");
  const auto left = c.gpu->free_bytes();
  require(left < 4 * GiB, "the other process took too little");
  const auto error = error_of([&] { const cuda_memory m{c.gpu, 8 * GiB}; });
  require(error.code() == std::errc::not_enough_memory, std::string{"another error: "} + error.what());
  expect_all_well(c);  // while the other process computes
  require(holder.finish() == 0, "the other process failed");
  // The driver takes back a dead process's memory by and by.
  for (int i = 0; i < 50 && c.gpu->free_bytes() < before; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
  }
  const cuda_memory m{c.gpu, 8 * GiB};
  return error.what();
}

std::string work_beside_kernel(const context& c) {
  bare::spin(1'000);
  const auto seconds = seconds_of([&] { c.gpu->check(); });
  require(seconds < 0.9, format("the health check waited %.1f s for another's kernel", seconds));
  bare::wait();
  return format("the health check took %.1f ms while a kernel ran", seconds * 1e3);
}

std::string notice_late(const context& c) {
  // A GPU that does not answer cannot be had on order, but a limit that nothing can keep.
  const auto error = error_of([&] { c.gpu->check(std::chrono::milliseconds{0}); });
  require(error.code() == std::errc::timed_out && memory::is_gpu_lost(error.code()), error.what());
  expect_all_well(c);
  return error.what();
}

std::string notice_lost_context(const context& c) {
  child broken{c, "--lose-context", ""};
  const auto said = broken.read_line();
  const auto status = broken.finish();
  require(status == 0, format("the process ended with status %d: ", status) + said);
  expect_all_well(c);
  return said;
}

}  // namespace

int hold_memory(const memory::gpu_ptr& gpu, std::uint64_t leave_free) {
  const cuda_memory held{gpu, gpu->free_bytes() - leave_free};
  report::line("holding");
  std::jthread busy{[&](const std::stop_token& stop) {
    bare::use(gpu->info().index);
    while (!stop.stop_requested()) {
      bare::read_all(held.address(), held.size() / 16 * 16);
    }
  }};
  char ignored = 0;
  while (::read(STDIN_FILENO, &ignored, 1) > 0) {
  }
  return 0;
}

int lose_context(const memory::gpu_ptr& gpu) {
  cuda_memory m{gpu, MiB};
  memory::load(m, memory::counting_fill{}, {});
  bare::access_illegally();
  const auto error = error_of([&] { gpu->check(); });
  const auto later = error_of([&] { static_cast<void>(memory::checksum(m, {})); });
  const auto allocation = error_of([&] { const cuda_memory another{gpu, MiB}; });
  const bool right =
      memory::is_gpu_lost(error.code()) && memory::is_gpu_lost(later.code()) && memory::is_gpu_lost(allocation.code());
  report::line(std::string{error.what()} + " | then checksum: " + later.what() +
               " | then allocation: " + allocation.what());
  return right ? 0 : 1;
}

void check_errors(context& c) {
  report::section("Errors");
  c.out.check("a GPU by index, UUID, PCI address", [&] { return name_right_gpu(c); });
  c.out.check("a GPU that is not there", name_wrong_gpus);
  c.out.check("out of memory", [&] { return run_out_of_memory(c); });
  c.out.check("a GPU that does not answer in time", [&] { return notice_late(c); });
  if (!c.quick) {
    c.out.check("a kernel of others in this process", [&] { return work_beside_kernel(c); });
    c.out.check("another process has most memory, and computes", [&] { return share_busy_gpu(c); });
    c.out.check("a lost context", [&] { return notice_lost_context(c); });
  }
}

}  // namespace gpurdma::gpu_report
