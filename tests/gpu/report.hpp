#pragma once

// What the report consists of: checks, each ok, FAILED or skipped, written as they are done.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "memory/gpu.hpp"

namespace gpurdma::gpu_report {

/// A check that does not hold.
class failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
/// A check that cannot be made here.
class skip : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws failure.
void require(bool holds, const std::string& what);

/// What `action` throws as std::system_error; throws failure if it throws nothing.
std::system_error error_of(const std::function<void()>& action);

class report {
 public:
  /// Calls `run`, which returns figures or remarks, and writes a line. Goes on whatever `run` throws.
  void check(const std::string& name, const std::function<std::string()>& run);
  static void section(const std::string& title);
  static void line(const std::string& text);
  /// 0, or 1 if a check failed.
  [[nodiscard]] int finish() const;

 private:
  int ok_ = 0;
  int skipped_ = 0;
  std::vector<std::string> failed_;
};

/// What all checks share.
struct context {
  report out;
  memory::gpu_ptr gpu;
  bool quick = false;            ///< a small share of everything, for slow tools such as compute-sanitizer
  std::string program;           ///< this program's path
  std::filesystem::path folder;  ///< for large files
};

void check_pools(context& c);
void check_checksums(context& c);
void check_loads(context& c);
void check_errors(context& c);
void measure(context& c);

/// Of child processes, see check_errors: they are this program with an option.
int hold_memory(const memory::gpu_ptr& gpu, std::uint64_t leave_free);
int lose_context(const memory::gpu_ptr& gpu);

/// A file that is gone at the end.
class scratch_file {
 public:
  /// `size` bytes that look random, and are the same for the same `size` and `seed`. Written by many threads.
  scratch_file(const std::filesystem::path& folder, std::uint64_t size, std::uint64_t seed = 1);
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  ~scratch_file();
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// Bytes that look random; the same for the same seed.
void fill_random(std::byte* to, std::size_t size, std::uint64_t seed);

[[nodiscard]] std::size_t open_descriptors();
[[nodiscard]] double seconds_of(const std::function<void()>& action);
[[nodiscard]] std::string format(const char* pattern, ...) __attribute__((format(printf, 1, 2)));

inline constexpr std::uint64_t KiB = std::uint64_t{1} << 10U;
inline constexpr std::uint64_t MiB = std::uint64_t{1} << 20U;
inline constexpr std::uint64_t GiB = std::uint64_t{1} << 30U;

}  // namespace gpurdma::gpu_report
