#include "memory/loader.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "memory/host_memory.hpp"
#include "tests/unit/files.hpp"

namespace gpurdma::memory {
namespace {

using test::scratch_folder;
using testing::HasSubstr;

constexpr auto block = checksum_block_size;

/// Memory that calls a function before each step or piece is worked on: something happens in the middle of a load.
class watched_memory final : public buffer_memory {
 public:
  watched_memory(std::size_t size, std::function<void(std::size_t offset)> on_block, unsigned readers = 1)
      : inner_{size}, on_block_{std::move(on_block)}, readers_{readers} {}
  [[nodiscard]] std::size_t size() const noexcept override { return inner_.size(); }
  [[nodiscard]] std::uint64_t address() const noexcept override { return inner_.address(); }
  void write(std::size_t offset, std::span<const std::byte> from) override { inner_.write(offset, from); }
  void read(std::size_t offset, std::span<std::byte> to) const override { inner_.read(offset, to); }
  [[nodiscard]] transfer_plan plan() const noexcept override {
    return {.piece = block, .readers = readers_, .step = block};
  }
  [[nodiscard]] std::unique_ptr<content_writer> make_writer(const std::stop_token& stop) override {
    return std::make_unique<watched_writer>(inner_.make_writer(stop), on_block_);
  }
  void fill(std::size_t offset, std::size_t size, std::byte value) override {
    on_block_(offset);
    inner_.fill(offset, size, value);
  }
  void fill_counting(std::size_t offset, std::size_t size) override {
    on_block_(offset);
    inner_.fill_counting(offset, size);
  }
  void checksum_blocks(std::size_t first, std::span<std::uint32_t> sums) const override {
    inner_.checksum_blocks(first, sums);
  }

 private:
  class watched_writer final : public content_writer {
   public:
    watched_writer(std::unique_ptr<content_writer> inner, const std::function<void(std::size_t offset)>& on_block)
        : inner_{std::move(inner)}, on_block_{on_block} {}
    std::span<std::byte> next(std::size_t offset, std::size_t size) override {
      on_block_(offset);
      return inner_->next(offset, size);
    }
    void commit(std::span<std::uint32_t> sums) override { inner_->commit(sums); }
    void finish() override { inner_->finish(); }

   private:
    std::unique_ptr<content_writer> inner_;
    const std::function<void(std::size_t offset)>& on_block_;
  };

  host_memory inner_;
  std::function<void(std::size_t offset)> on_block_;
  unsigned readers_;
};

/// Text in which no two blocks are alike.
std::string some_text(std::size_t size) {
  std::string text(size, '\0');
  std::ranges::generate(text,
                        [n = std::uint32_t{0}]() mutable { return static_cast<char>((n++ * 2654435761U) >> 13U); });
  return text;
}

std::string text_of(const host_memory& m) {
  std::string text(m.size(), '\0');
  m.read(0, std::as_writable_bytes(std::span{text}));
  return text;
}

/// What `action` throws.
std::pair<std::error_code, std::string> failure_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::system_error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

void expect_failure(const std::function<void()>& action, std::errc why, const std::string& words) {
  const auto [code, what] = failure_of(action);
  EXPECT_EQ(code, why) << what;
  EXPECT_THAT(what, HasSubstr(words));
}

void expect_checksums_of(const content_checksums& found, const host_memory& m) {
  EXPECT_EQ(found.size, m.size());
  ASSERT_EQ(found.blocks.size(), (m.size() + block - 1) / block);
  for (std::size_t i = 0; i < found.blocks.size(); ++i) {
    const auto offset = i * block;
    EXPECT_EQ(found.blocks[i], crc32c(m.bytes().subspan(offset, std::min(block, m.size() - offset)))) << "block " << i;
  }
  EXPECT_EQ(found, checksum(m, {}));
}

constexpr std::size_t sizes[] = {1, 7, 4096, block - 1, block, block + 1, 3 * block, 3 * block + 13};

TEST(loader, fills_with_one_byte) {
  for (const auto size : sizes) {
    host_memory m{size};
    const auto sums = load(m, byte_fill{std::byte{'R'}}, {});
    EXPECT_TRUE(std::ranges::all_of(m.bytes(), [](std::byte b) { return b == std::byte{'R'}; })) << size;
    expect_checksums_of(sums, m);
  }
}

TEST(loader, counts_in_little_endian_words_across_blocks) {
  for (const auto size : sizes) {
    host_memory m{size};
    const auto sums = load(m, counting_fill{}, {});
    for (std::size_t i = 0; i < size; ++i) {
      std::array<std::byte, 8> word{};
      for (std::size_t n = 0; n < 8; ++n) {
        word.at(n) = static_cast<std::byte>((i / 8) >> (8 * n) & 0xFFU);
      }
      ASSERT_EQ(m.bytes()[i], word.at(i % 8)) << "byte " << i << " of " << size;
    }
    expect_checksums_of(sums, m);
  }
}

TEST(loader, copies_a_file) {
  const scratch_folder folder;
  for (const auto size : sizes) {
    const auto text = some_text(size);
    const auto file = folder.write("source", text);
    EXPECT_EQ(memory::file_size(file), size);
    host_memory m{size};
    const auto sums = load(m, file_source{file}, {});
    EXPECT_TRUE(text_of(m) == text) << size;
    expect_checksums_of(sums, m);
  }
}

TEST(loader, follows_a_link_to_a_file) {
  const scratch_folder folder;
  std::filesystem::create_symlink(folder.write("source", "abc"), folder / "link");
  host_memory m{3};
  load(m, file_source{folder / "link"}, {});
  EXPECT_EQ(text_of(m), "abc");
}

TEST(loader, refuses_a_file_of_another_size) {
  const scratch_folder folder;
  const auto file = folder.write("source", "12345");
  for (const std::size_t size : {4U, 6U}) {
    host_memory m{size};
    expect_failure([&] { load(m, file_source{file}, {}); }, std::errc::invalid_argument,
                   "source " + file.string() + " has 5 bytes, the buffer has " + std::to_string(size));
    EXPECT_EQ(text_of(m), std::string(size, '\0'));
  }
}

TEST(loader, refuses_what_is_no_regular_file_with_content) {
  const scratch_folder folder;
  const auto expect_refused = [](const std::filesystem::path& path, std::errc why, const std::string& words) {
    const auto sentence = "source " + path.string() + " " + words;
    expect_failure([&] { static_cast<void>(memory::file_size(path)); }, why, sentence);
    host_memory m{1};
    expect_failure([&] { load(m, file_source{path}, {}); }, why, sentence);
  };
  expect_refused(folder / "missing", std::errc::no_such_file_or_directory, "cannot be opened");
  expect_refused(folder.path(), std::errc::invalid_argument, "is not a regular file");
  expect_refused("/dev/zero", std::errc::invalid_argument, "is not a regular file");
  expect_refused(folder.write("empty", ""), std::errc::invalid_argument, "is empty");
}

TEST(loader, does_not_wait_for_the_writer_of_a_fifo) {
  const scratch_folder folder;
  const auto fifo = folder / "fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  alarm(20);  // rather than hang for ever
  expect_failure([&] { static_cast<void>(memory::file_size(fifo)); }, std::errc::invalid_argument,
                 "is not a regular file");
  alarm(0);
}

TEST(loader, refuses_a_file_that_may_not_be_read) {
  const scratch_folder folder;
  const auto file = folder.write("secret", "abc");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(file, std::filesystem::perms::none);
  const test::ordinary_user user;
  expect_failure([&] { static_cast<void>(memory::file_size(file)); }, std::errc::permission_denied, "cannot be opened");
}

void make_old(const std::filesystem::path& file) {
  constexpr timespec then[] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, file.c_str(), then, 0), 0);
}

/// A file of two blocks that was last changed long ago, so that any change shows.
std::filesystem::path old_file(const scratch_folder& folder) {
  auto file = folder.write("source", some_text(2 * block));
  make_old(file);
  return file;
}

void expect_change_noticed(const std::function<void(const std::filesystem::path&)>& change, const std::string& words) {
  const scratch_folder folder;
  const auto file = old_file(folder);
  watched_memory m{2 * block, [&](std::size_t offset) {
                     if (offset == 0) {
                       change(file);
                     }
                   }};
  expect_failure([&] { load(m, file_source{file}, {}); }, std::errc::io_error, "source " + file.string() + " " + words);
}

TEST(loader, notices_that_a_file_becomes_shorter) {
  expect_change_noticed([](const auto& file) { std::filesystem::resize_file(file, block + 1); }, "became shorter");
}

TEST(loader, notices_that_a_file_becomes_longer) {
  expect_change_noticed(
      [](const auto& file) {
        std::ofstream{file, std::ios::app} << '!';
        make_old(file);
      },
      "was changed");
}

TEST(loader, notices_that_a_file_is_written_to) {
  expect_change_noticed([](const auto& file) { std::fstream{file} << '!'; }, "was changed");
}

TEST(loader, goes_on_with_the_file_that_it_opened_when_another_takes_its_name) {
  const scratch_folder folder;
  const auto file = old_file(folder);
  const auto other = folder.write("other", "other");
  host_memory expected{2 * block};
  const auto text = test::content_of(file);
  expected.write(0, std::as_bytes(std::span{text}));
  watched_memory m{2 * block, [&](std::size_t offset) {
                     if (offset == 0) {
                       std::filesystem::rename(other, file);
                     }
                   }};
  EXPECT_EQ(load(m, file_source{file}, {}), checksum(expected, {}));
}

TEST(loader, stops_between_blocks_when_asked_to) {
  const scratch_folder folder;
  for (const content_source& from :
       {content_source{byte_fill{}}, content_source{counting_fill{}}, content_source{file_source{old_file(folder)}}}) {
    std::stop_source stop;
    std::vector<std::size_t> offsets;
    watched_memory m{2 * block, [&](std::size_t offset) {
                       offsets.push_back(offset);
                       stop.request_stop();
                     }};
    expect_failure([&] { load(m, from, stop.get_token()); }, std::errc::operation_canceled, "given up");
    EXPECT_EQ(offsets, std::vector<std::size_t>{0});
  }
}

TEST(loader, does_not_begin_where_it_is_already_to_stop) {
  std::stop_source stop;
  stop.request_stop();
  const scratch_folder folder;
  watched_memory m{1, [](std::size_t) { ADD_FAILURE() << "touched the memory"; }};
  for (const content_source& from : {content_source{byte_fill{}}, content_source{counting_fill{}},
                                     content_source{file_source{folder.write("source", "!")}}}) {
    expect_failure([&] { load(m, from, stop.get_token()); }, std::errc::operation_canceled, "given up");
  }
  expect_failure([&] { static_cast<void>(checksum(m, stop.get_token())); }, std::errc::operation_canceled, "given up");
}

TEST(loader, says_how_much_is_done) {
  const scratch_folder folder;
  constexpr auto size = 5 * block + 1;
  const auto file = folder.write("source", some_text(size));
  for (const content_source& from :
       {content_source{byte_fill{}}, content_source{counting_fill{}}, content_source{file_source{file}}}) {
    watched_memory m{size, [](std::size_t) {}, 3};
    std::vector<std::uint64_t> done;
    load(m, from, {}, [&](std::uint64_t bytes) { done.push_back(bytes); });
    EXPECT_EQ(done.size(), 6U);
    EXPECT_TRUE(std::ranges::is_sorted(done));
    EXPECT_EQ(done.back(), size);
  }
}

TEST(loader, tells_the_first_failure_of_many_readers) {
  const scratch_folder folder;
  const auto file = folder.write("source", some_text(20 * block));
  watched_memory m{20 * block,
                   [](std::size_t offset) {
                     if (offset == 3 * block) {
                       throw std::system_error{std::make_error_code(std::errc::io_error), "the third"};
                     }
                   },
                   8};
  expect_failure([&] { load(m, file_source{file}, {}); }, std::errc::io_error, "the third");
}

TEST(loader, needs_no_reader_that_waits_in_vain) {
  // One reader gets what it needs to work; the others wait for it until they are told that nothing is left.
  class one_writer_memory final : public buffer_memory {
   public:
    [[nodiscard]] std::size_t size() const noexcept override { return inner_.size(); }
    [[nodiscard]] std::uint64_t address() const noexcept override { return inner_.address(); }
    void write(std::size_t offset, std::span<const std::byte> from) override { inner_.write(offset, from); }
    void read(std::size_t offset, std::span<std::byte> to) const override { inner_.read(offset, to); }
    [[nodiscard]] transfer_plan plan() const noexcept override { return {.piece = block, .readers = 4, .step = block}; }
    [[nodiscard]] std::unique_ptr<content_writer> make_writer(const std::stop_token& stop) override {
      if (taken_.exchange(true)) {
        std::mutex mutex;
        std::unique_lock lock{mutex};
        std::condition_variable_any{}.wait(lock, stop, [] { return false; });
        return nullptr;
      }
      return inner_.make_writer(stop);
    }
    void fill(std::size_t, std::size_t, std::byte) override {}
    void fill_counting(std::size_t, std::size_t) override {}
    void checksum_blocks(std::size_t first, std::span<std::uint32_t> sums) const override {
      inner_.checksum_blocks(first, sums);
    }

   private:
    host_memory inner_{7 * block};
    std::atomic<bool> taken_{};
  };
  const scratch_folder folder;
  one_writer_memory m;
  const auto loaded = load(m, file_source{folder.write("source", some_text(7 * block))}, {});
  EXPECT_EQ(loaded, checksum(m, {}));
}

TEST(checksum, finds_a_flipped_bit) {
  constexpr auto size = 2 * block + 100;
  host_memory m{size};
  const auto before = load(m, counting_fill{}, {});
  ASSERT_EQ(checksum(m, {}), before);
  for (const std::size_t at : {std::size_t{0}, block - 1, block, 2 * block - 1, 2 * block, size - 1}) {
    m.bytes()[at] ^= std::byte{0x10};
    auto expected = before;
    const auto now = checksum(m, {});
    EXPECT_NE(now.blocks[at / block], before.blocks[at / block]) << at;
    expected.blocks[at / block] = now.blocks[at / block];
    EXPECT_EQ(now, expected) << at << ": another block's checksum changed";
    m.bytes()[at] ^= std::byte{0x10};
  }
}

}  // namespace
}  // namespace gpurdma::memory
