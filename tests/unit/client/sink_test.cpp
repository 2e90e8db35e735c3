#include "client/sink.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include "tests/unit/files.hpp"

namespace gpurdma::client {
namespace {

using test::content_of;
using test::scratch_folder;

void write(sink& to, std::string_view text) { to.write(std::as_bytes(std::span{text})); }

/// What `action` throws.
template <typename Action>
std::error_code error_of(Action action) {
  try {
    action();
    return {};
  } catch (const std::system_error& e) {
    return e.code();
  }
}

std::error_code error_of_making(const std::filesystem::path& file) {
  return error_of([&] { static_cast<void>(make_sink(file.string())); });
}

TEST(file_sink, shows_the_file_only_once_it_is_committed) {
  const scratch_folder folder;
  const auto file = folder / "out";
  const auto to = make_sink(file.string());
  write(*to, "12345");
  write(*to, "");
  write(*to, "67");
  EXPECT_FALSE(std::filesystem::exists(file));
  to->commit();
  EXPECT_EQ(content_of(file), "1234567");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(file_sink, keeps_the_file_when_it_goes_after_its_commit) {
  const scratch_folder folder;
  {
    const auto to = make_sink((folder / "out").string());
    to->commit();
  }
  EXPECT_EQ(content_of(folder / "out"), "");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(file_sink, leaves_nothing_without_a_commit) {
  const scratch_folder folder;
  {
    const auto to = make_sink((folder / "out").string());
    write(*to, "12345");
    EXPECT_EQ(folder.entries(), 1U) << "the bytes go to the same folder, where the name will be";
  }
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(file_sink, replaces_a_file_only_when_committed) {
  const scratch_folder folder;
  const auto file = folder.write("out", "old");
  {
    const auto to = make_sink(file.string());
    write(*to, "lost");
  }
  EXPECT_EQ(content_of(file), "old");
  const auto to = make_sink(file.string());
  write(*to, "new");
  EXPECT_EQ(content_of(file), "old");
  to->commit();
  EXPECT_EQ(content_of(file), "new");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(file_sink, lets_two_write_to_one_name_and_the_last_commit_wins) {
  const scratch_folder folder;
  const auto file = (folder / "out").string();
  const auto one = make_sink(file);
  const auto other = make_sink(file);
  write(*one, "one");
  write(*other, "other");
  other->commit();
  EXPECT_EQ(content_of(file), "other");
  one->commit();
  EXPECT_EQ(content_of(file), "one");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(file_sink, gives_the_file_the_mode_that_the_umask_says) {
  const scratch_folder folder;
  const auto before = umask(0);
  for (const mode_t mask : {0U, 0022U, 0027U, 0077U}) {
    umask(mask);
    const auto file = folder / "out";
    make_sink(file.string())->commit();
    EXPECT_EQ(umask(mask), mask) << "it was changed";
    struct stat s {};
    ASSERT_EQ(stat(file.c_str(), &s), 0);
    EXPECT_EQ(s.st_mode & 07777U, 0666U & ~mask);
    std::filesystem::remove(file);
  }
  umask(before);
}

TEST(file_sink, says_at_once_where_no_file_can_be_made) {
  const scratch_folder folder;
  EXPECT_EQ(error_of_making((folder / "missing/out")), std::errc::no_such_file_or_directory);
  EXPECT_EQ(error_of_making((folder.write("file", "") / "out")), std::errc::not_a_directory);
  EXPECT_EQ(error_of_making(folder.path()), std::errc::is_a_directory);

  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec |
                                                  std::filesystem::perms::others_exec);
  const test::ordinary_user user;
  EXPECT_EQ(error_of_making((folder / "out")), std::errc::permission_denied);
}

TEST(file_sink, leaves_nothing_where_the_commit_fails) {
  const scratch_folder folder;
  const auto file = folder / "out";
  {
    const auto to = make_sink(file.string());
    write(*to, "12345");
    std::filesystem::create_directory(file);
    EXPECT_EQ(error_of([&] { to->commit(); }), std::errc::is_a_directory);
  }
  EXPECT_EQ(folder.entries(), 1U);
  EXPECT_TRUE(std::filesystem::is_directory(file));
}

TEST(stream_sink, writes_to_a_fifo_and_does_not_replace_it) {
  const scratch_folder folder;
  const auto fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  const auto to = make_sink(fifo.string());
  write(*to, "12345");
  std::array<char, 10> found{};
  EXPECT_EQ(read(reader, found.data(), found.size()), 5) << "before any commit";
  EXPECT_STREQ(found.data(), "12345");
  to->commit();
  EXPECT_TRUE(std::filesystem::is_fifo(fifo));
  EXPECT_EQ(folder.entries(), 1U);
  close(reader);
}

TEST(stream_sink, says_that_a_device_is_full) {
  const auto to = make_sink("/dev/full");
  EXPECT_EQ(error_of([&] { write(*to, "12345"); }), std::errc::no_space_on_device);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

/// While it lives, standard output is another file.
class redirected_stdout {
 public:
  explicit redirected_stdout(const std::filesystem::path& to) : before_{fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)} {
    const int fd = open(to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (before_ < 0 || fd < 0 || dup2(fd, STDOUT_FILENO) < 0) {
      throw std::runtime_error{"cannot redirect standard output"};
    }
    close(fd);
  }
  redirected_stdout(const redirected_stdout&) = delete;
  redirected_stdout& operator=(const redirected_stdout&) = delete;
  ~redirected_stdout() {
    dup2(before_, STDOUT_FILENO);
    close(before_);
  }

 private:
  int before_;
};

TEST(stream_sink, is_standard_output_for_a_dash_and_leaves_it_open) {
  const scratch_folder folder;
  bool is_open = false;
  {
    const redirected_stdout redirected{folder / "out"};
    {
      const auto to = make_sink("-");
      write(*to, "12345");
      to->commit();
    }
    is_open = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
  }
  EXPECT_TRUE(is_open);
  EXPECT_EQ(content_of(folder / "out"), "12345");
}

TEST(stream_sink, says_that_standard_output_is_full) {
  std::error_code error;
  {
    const redirected_stdout redirected{"/dev/full"};
    const auto to = make_sink("-");
    error = error_of([&] { write(*to, "12345"); });
  }
  EXPECT_EQ(error, std::errc::no_space_on_device);
}

TEST(null_sink, takes_everything) {
  const auto to = make_sink(std::nullopt);
  write(*to, "12345");
  to->commit();
}

}  // namespace
}  // namespace gpurdma::client
