#include "tests/gpu/report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <system_error>
#include <thread>

namespace gpurdma::gpu_report {

void require(bool holds, const std::string& what) {
  if (!holds) {
    throw failure{what};
  }
}

std::system_error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::system_error& e) {
    return e;
  }
  throw failure{"no error"};
}

std::string format(const char* pattern, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

double seconds_of(const std::function<void()>& action) {
  const auto begin = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void report::line(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void report::section(const std::string& title) { line("\n== " + title); }

void report::check(const std::string& name, const std::function<std::string()>& run) {
  std::string verdict = "ok     ";
  std::string remark;
  const auto seconds = seconds_of([&] {
    try {
      remark = run();
      ++ok_;
    } catch (const skip& e) {
      verdict = "skipped";
      remark = e.what();
      ++skipped_;
    } catch (const std::exception& e) {
      verdict = "FAILED ";
      remark = e.what();
      failed_.push_back(name);
    }
  });
  line(verdict + " " + name + format(" [%.1f s]", seconds) + (remark.empty() ? "" : ": " + remark));
}

int report::finish() const {
  line(format("\n%d ok, %zu failed, %d skipped", ok_, failed_.size(), skipped_));
  for (const auto& name : failed_) {
    line("FAILED: " + name);
  }
  return failed_.empty() ? 0 : 1;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{"/proc/self/fd"}, {}));
}

void fill_random(std::byte* to, std::size_t size, std::uint64_t seed) {
  auto state = seed * 0x9E37'79B9'7F4A'7C15 + 1;
  for (std::size_t i = 0; i < size; i += sizeof state) {
    state ^= state << 13U;
    state ^= state >> 7U;
    state ^= state << 17U;
    std::memcpy(to + i, &state, std::min(sizeof state, size - i));
  }
}

scratch_file::scratch_file(const std::filesystem::path& folder, std::uint64_t size, std::uint64_t seed)
    : path_{folder / ("gpurdma-report-" + std::to_string(getpid()) + "-" + std::to_string(size))} {
  const int fd = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) {
    throw std::system_error{errno, std::system_category(), path_};
  }
  std::atomic<std::uint64_t> next{0};
  std::atomic<int> error{0};
  std::vector<std::jthread> writers;
  for (unsigned i = 0; i < std::clamp(std::thread::hardware_concurrency(), 1U, 16U); ++i) {
    writers.emplace_back([&] {
      std::vector<std::byte> piece(8 * MiB);
      for (auto at = next.fetch_add(piece.size()); at < size; at = next.fetch_add(piece.size())) {
        const auto part = std::min<std::uint64_t>(piece.size(), size - at);
        fill_random(piece.data(), part, seed + at);
        if (::pwrite(fd, piece.data(), part, static_cast<off_t>(at)) != static_cast<ssize_t>(part)) {
          error = errno == 0 ? EIO : errno;
        }
      }
    });
  }
  writers.clear();
  ::close(fd);
  if (error != 0) {
    std::filesystem::remove(path_);
    throw std::system_error{error, std::system_category(), "cannot write " + path_.string()};
  }
}

scratch_file::~scratch_file() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace gpurdma::gpu_report
