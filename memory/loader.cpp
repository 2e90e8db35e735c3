#include "memory/loader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace gpurdma::memory {
namespace {

[[noreturn]] void fail(int error, const std::filesystem::path& path, const std::string& what) {
  throw std::system_error{error, std::system_category(), "source " + path.string() + " " + what};
}

[[noreturn]] void fail_as_given_up() {
  throw std::system_error{std::make_error_code(std::errc::operation_canceled), "loading was given up"};
}

/// A file that is read once, by several threads, and must not change meanwhile.
class source_reader {
 public:
  explicit source_reader(std::filesystem::path path)
      // Without O_NONBLOCK, opening a FIFO would wait for its writer.
      : path_{std::move(path)}, fd_{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)} {
    if (fd_ < 0) {
      fail(errno, path_, "cannot be opened");
    }
    try {
      at_start_ = status();
      if (!S_ISREG(at_start_.st_mode)) {
        fail(EINVAL, path_, "is not a regular file");
      }
      if (at_start_.st_size == 0) {
        fail(EINVAL, path_, "is empty");
      }
    } catch (...) {
      ::close(fd_);
      throw;
    }
    posix_fadvise(fd_, 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  source_reader(const source_reader&) = delete;
  source_reader& operator=(const source_reader&) = delete;
  ~source_reader() { ::close(fd_); }

  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(at_start_.st_size); }

  void read(std::size_t offset, std::span<std::byte> to) const {
    while (!to.empty()) {
      const auto got = ::pread(fd_, to.data(), to.size(), static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        fail(errno, path_, "cannot be read");
      }
      if (got == 0) {
        fail(EIO, path_, "became shorter while it was read");
      }
      offset += static_cast<std::size_t>(got);
      to = to.subspan(static_cast<std::size_t>(got));
    }
  }

  void require_unchanged() const {
    const auto now = status();
    if (now.st_size != at_start_.st_size || now.st_mtim.tv_sec != at_start_.st_mtim.tv_sec ||
        now.st_mtim.tv_nsec != at_start_.st_mtim.tv_nsec) {
      fail(EIO, path_, "was changed while it was read");
    }
  }

 private:
  [[nodiscard]] struct stat status() const {
    struct stat s {};
    if (fstat(fd_, &s) != 0) {
      fail(errno, path_, "cannot be examined");
    }
    return s;
  }

  std::filesystem::path path_;
  int fd_;
  struct stat at_start_ {};
};

/// Reads a file into a buffer by several threads, each of which takes the next piece as soon as it is through with one.
class file_load {
 public:
  file_load(buffer_memory& to, const source_reader& file, const std::stop_token& stop, const load_progress& on_progress)
      : to_{to}, file_{file}, stop_{stop}, on_progress_{on_progress}, plan_{to.plan()} {
    sums_.size = to.size();
    sums_.blocks.resize(block_count(to.size()));
  }

  content_checksums run() {
    const auto pieces = to_.size() / plan_.piece + (to_.size() % plan_.piece != 0 ? 1 : 0);
    {
      const std::stop_callback on_stop{stop_, [this] { enough_.request_stop(); }};
      std::vector<std::jthread> helpers;
      try {
        while (helpers.size() + 1 < std::min<std::size_t>(plan_.readers, pieces)) {
          helpers.emplace_back([this] { read_pieces(); });
        }
      } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): fewer threads are slower, no less right
      }
      read_pieces();
    }
    if (failure_) {
      std::rethrow_exception(failure_);
    }
    if (done_ != to_.size()) {
      fail_as_given_up();
    }
    if (plan_.checksum_at_the_end) {
      to_.checksum_blocks(0, sums_.blocks);
    }
    return std::move(sums_);
  }

 private:
  void read_pieces() noexcept {
    try {
      // Waiting for a writer ends when the others have left nothing to do.
      if (const auto writer = to_.make_writer(enough_.get_token())) {
        while (const auto offset = claim()) {
          read_piece(*writer, *offset);
        }
        writer->finish();
      }
    } catch (...) {
      const std::scoped_lock lock{mutex_};
      if (!failure_) {
        failure_ = std::current_exception();
      }
      failed_ = true;
      enough_.request_stop();
    }
  }

  /// The offset of the next piece.
  std::optional<std::size_t> claim() {
    if (failed_ || stop_.stop_requested()) {
      return std::nullopt;
    }
    const auto offset = next_.fetch_add(plan_.piece);
    if (offset >= to_.size()) {
      enough_.request_stop();
      return std::nullopt;
    }
    return offset;
  }

  void read_piece(content_writer& writer, std::size_t offset) {
    const auto size = std::min(plan_.piece, to_.size() - offset);
    file_.read(offset, writer.next(offset, size));
    writer.commit(std::span{sums_.blocks}.subspan(offset / checksum_block_size, block_count(size)));
    const std::scoped_lock lock{mutex_};
    done_ += size;
    if (on_progress_) {
      on_progress_(done_);
    }
  }

  buffer_memory& to_;
  const source_reader& file_;
  const std::stop_token& stop_;
  const load_progress& on_progress_;
  const transfer_plan plan_;
  content_checksums sums_;           // each reader writes those of its pieces
  std::stop_source enough_;          // nothing is left to begin
  std::atomic<std::size_t> next_{};  // offset
  std::atomic<bool> failed_{};
  std::mutex mutex_;  // of what follows
  std::uint64_t done_ = 0;
  std::exception_ptr failure_;
};

/// Calls `work(offset, size)` for each step of `memory`, unless `stop` is requested.
template <typename Work>
void for_each_step(const buffer_memory& memory, const std::stop_token& stop, const load_progress& on_progress,
                   Work work) {
  const auto step = memory.plan().step;
  for (std::size_t offset = 0; offset < memory.size(); offset += step) {
    if (stop.stop_requested()) {
      fail_as_given_up();
    }
    const auto size = std::min(step, memory.size() - offset);
    work(offset, size);
    if (on_progress) {
      on_progress(offset + size);
    }
  }
}

/// The checksums of `memory`, after `prepare(offset, size)` of each step.
template <typename Prepare>
content_checksums checksum_steps(const buffer_memory& memory, const std::stop_token& stop,
                                 const load_progress& on_progress, Prepare prepare) {
  content_checksums sums{.size = memory.size(), .blocks = std::vector<std::uint32_t>(block_count(memory.size()))};
  for_each_step(memory, stop, on_progress, [&](std::size_t offset, std::size_t size) {
    prepare(offset, size);
    const auto first = offset / checksum_block_size;
    memory.checksum_blocks(first, std::span{sums.blocks}.subspan(first, block_count(size)));
  });
  return sums;
}

content_checksums load_from(buffer_memory& to, const byte_fill& from, const std::stop_token& stop,
                            const load_progress& on_progress) {
  for_each_step(to, stop, on_progress,
                [&](std::size_t offset, std::size_t size) { to.fill(offset, size, from.value); });
  // All blocks are alike, and known: nothing to read back.
  content_checksums sums{.size = to.size(), .blocks = {}};
  if (const auto whole = to.size() / checksum_block_size; whole != 0) {
    sums.blocks.assign(whole, crc32c_of_repeated(from.value, checksum_block_size));
  }
  if (const auto rest = to.size() % checksum_block_size; rest != 0) {
    sums.blocks.push_back(crc32c_of_repeated(from.value, rest));
  }
  return sums;
}

content_checksums load_from(buffer_memory& to, const counting_fill&, const std::stop_token& stop,
                            const load_progress& on_progress) {
  return checksum_steps(to, stop, on_progress,
                        [&](std::size_t offset, std::size_t size) { to.fill_counting(offset, size); });
}

content_checksums load_from(buffer_memory& to, const file_source& from, const std::stop_token& stop,
                            const load_progress& on_progress) {
  const source_reader file{from.path};
  if (file.size() != to.size()) {
    fail(EINVAL, from.path,
         "has " + std::to_string(file.size()) + " bytes, the buffer has " + std::to_string(to.size()));
  }
  auto sums = file_load{to, file, stop, on_progress}.run();
  file.require_unchanged();
  return sums;
}

}  // namespace

std::size_t file_size(const std::filesystem::path& path) { return source_reader{path}.size(); }

content_checksums load(buffer_memory& to, const content_source& from, const std::stop_token& stop,
                       const load_progress& on_progress) {
  return std::visit([&](const auto& source) { return load_from(to, source, stop, on_progress); }, from);
}

content_checksums checksum(const buffer_memory& of, const std::stop_token& stop) {
  return checksum_steps(of, stop, {}, [](std::size_t, std::size_t) {});
}

}  // namespace gpurdma::memory
