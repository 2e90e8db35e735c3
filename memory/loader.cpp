#include "memory/loader.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>
#include <vector>

namespace gpurdma::memory {
namespace {

[[noreturn]] void fail(int error, const std::filesystem::path& path, const std::string& what) {
  throw std::system_error{error, std::system_category(), "source " + path.string() + " " + what};
}

/// A file that is read once from front to back, and must not change meanwhile.
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

  void read(std::span<std::byte> to) {
    while (!to.empty()) {
      const auto got = ::read(fd_, to.data(), to.size());
      if (got < 0 && errno == EINTR) {
        continue;
      }
      if (got < 0) {
        fail(errno, path_, "cannot be read");
      }
      if (got == 0) {
        fail(EIO, path_, "became shorter while it was read");
      }
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

/// Calls `produce(offset, block)` for each block of a buffer of `size` bytes and returns the blocks' checksums.
template <typename Produce>
content_checksums for_each_block(std::size_t size, const std::stop_token& stop, Produce produce) {
  content_checksums sums{.size = size, .blocks = {}};
  std::vector<std::byte> block(std::min(size, checksum_block_size));
  for (std::size_t offset = 0; offset < size; offset += checksum_block_size) {
    if (stop.stop_requested()) {
      throw std::system_error{std::make_error_code(std::errc::operation_canceled), "loading was given up"};
    }
    const auto part = std::span{block}.first(std::min(checksum_block_size, size - offset));
    produce(offset, part);
    sums.blocks.push_back(crc32c(part));
  }
  return sums;
}

content_checksums load_from(buffer_memory& to, const byte_fill& from, const std::stop_token& stop) {
  return for_each_block(to.size(), stop, [&](std::size_t offset, std::span<std::byte> block) {
    std::fill(block.begin(), block.end(), from.value);
    to.write(offset, block);
  });
}

content_checksums load_from(buffer_memory& to, const counting_fill&, const std::stop_token& stop) {
  return for_each_block(to.size(), stop, [&](std::size_t offset, std::span<std::byte> block) {
    // Blocks begin at multiples of 8. The last word may be cut.
    for (std::size_t i = 0; i < block.size(); i += sizeof(std::uint64_t)) {
      const std::uint64_t word = (offset + i) / sizeof word;
      static_assert(std::endian::native == std::endian::little);
      std::memcpy(&block[i], &word, std::min(sizeof word, block.size() - i));
    }
    to.write(offset, block);
  });
}

content_checksums load_from(buffer_memory& to, const file_source& from, const std::stop_token& stop) {
  source_reader file{from.path};
  if (file.size() != to.size()) {
    fail(EINVAL, from.path,
         "has " + std::to_string(file.size()) + " bytes, the buffer has " + std::to_string(to.size()));
  }
  auto sums = for_each_block(to.size(), stop, [&](std::size_t offset, std::span<std::byte> block) {
    file.read(block);
    to.write(offset, block);
  });
  file.require_unchanged();
  return sums;
}

}  // namespace

std::size_t file_size(const std::filesystem::path& path) { return source_reader{path}.size(); }

content_checksums load(buffer_memory& to, const content_source& from, const std::stop_token& stop) {
  return std::visit([&](const auto& source) { return load_from(to, source, stop); }, from);
}

content_checksums checksum(const buffer_memory& of, const std::stop_token& stop) {
  return for_each_block(of.size(), stop,
                        [&](std::size_t offset, std::span<std::byte> block) { of.read(offset, block); });
}

}  // namespace gpurdma::memory
