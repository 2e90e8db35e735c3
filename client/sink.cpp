#include "client/sink.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace gpurdma::client {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::system_error{errno, std::system_category(), what}; }

void write_all(int fd, std::span<const std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const auto done = ::write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno != EINTR) {
      fail("cannot write " + name);
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done < 0 ? 0 : done));
  }
}

class null_sink final : public sink {
 public:
  void write(std::span<const std::byte>) override {}
  void commit() override {}
};

/// A descriptor that is written as it comes: standard output, a device, a FIFO.
class stream_sink final : public sink {
 public:
  stream_sink(int fd, std::string name) : fd_{fd}, name_{std::move(name)} {}
  ~stream_sink() override {
    if (fd_ != STDOUT_FILENO) {
      ::close(fd_);
    }
  }
  void write(std::span<const std::byte> bytes) override { write_all(fd_, bytes, name_); }
  void commit() override {}

 private:
  int fd_;
  std::string name_;
};

class file_sink final : public sink {
 public:
  explicit file_sink(std::string path) : path_{std::move(path)}, temporary_{path_ + ".XXXXXX.part"} {
    constexpr int suffix = 5;
    fd_ = mkostemps(temporary_.data(), suffix, O_CLOEXEC);
    if (fd_ < 0) {
      fail("cannot create a file beside " + path_);
    }
    // As open(2) with 0666 would have made it; mkostemps is stricter.
    const auto mask = umask(0);
    umask(mask);
    fchmod(fd_, 0666 & ~mask);
  }
  ~file_sink() override {
    if (fd_ >= 0) {
      ::close(fd_);
      ::unlink(temporary_.c_str());
    }
  }

  void write(std::span<const std::byte> bytes) override { write_all(fd_, bytes, path_); }
  void commit() override {
    // The data must be on disk before the name is, or a crash leaves a file that looks complete.
    if (fsync(fd_) != 0) {
      fail("cannot write " + path_);
    }
    if (std::rename(temporary_.c_str(), path_.c_str()) != 0) {
      fail("cannot rename " + temporary_ + " to " + path_);
    }
    ::close(std::exchange(fd_, -1));
  }

 private:
  std::string path_;
  std::string temporary_;
  int fd_ = -1;
};

}  // namespace

std::unique_ptr<sink> make_sink(const std::optional<std::string>& output) {
  if (!output) {
    return std::make_unique<null_sink>();
  }
  if (*output == "-") {
    return std::make_unique<stream_sink>(STDOUT_FILENO, "standard output");
  }
  struct stat there {};
  if (stat(output->c_str(), &there) == 0 && !S_ISREG(there.st_mode)) {
    // A device or a FIFO is not to be replaced by a file.
    const int fd = ::open(output->c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY);
    if (fd < 0) {
      fail("cannot open " + *output);
    }
    return std::make_unique<stream_sink>(fd, *output);
  }
  // A symbolic link stays one: its target gets the bytes.
  std::error_code no_such;
  const auto target = std::filesystem::canonical(*output, no_such);
  return std::make_unique<file_sink>(no_such ? *output : target.string());
}

}  // namespace gpurdma::client
