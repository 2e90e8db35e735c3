#include "daemon/buffer_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "tests/unit/files.hpp"

namespace gpurdma::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

buffer_version_ptr version_of(const std::string& name, std::uint64_t version = 1) {
  return load_version({.name = name, .size = 1, .source = memory::byte_fill{}}, version, {});
}

buffer_pool pool_of(const std::vector<std::string>& names) {
  buffer_pool pool;
  for (const auto& name : names) {
    pool.publish(version_of(name));
  }
  return pool;
}

std::vector<std::string> names_of(const std::vector<buffer_version_ptr>& versions) {
  std::vector<std::string> names;
  for (const auto& v : versions) {
    names.push_back(v->name);
  }
  return names;
}

TEST(load_version, fills_memory_and_knows_its_checksums_and_digest) {
  const test::scratch_folder folder;
  const buffer_config from{
      .name = "demo", .size = 9, .source = memory::file_source{folder.write("source", "123456789")}};
  const auto made = load_version(from, 7, {});
  EXPECT_EQ(made->name, "demo");
  EXPECT_EQ(made->version, 7U);
  ASSERT_EQ(made->memory->size(), 9U);
  std::array<char, 9> content{};
  made->memory->read(0, std::as_writable_bytes(std::span{content}));
  EXPECT_EQ(std::string_view(content.data(), content.size()), "123456789");
  EXPECT_EQ(made->checksums, (memory::content_checksums{.size = 9, .blocks = {0xE3069283}}));
  EXPECT_EQ(made->digest, memory::content_digest(made->checksums));
}

TEST(load_version, throws_where_the_source_does_not_load) {
  const buffer_config from{.name = "demo", .size = 9, .source = memory::file_source{"/nonexistent"}};
  EXPECT_THROW(static_cast<void>(load_version(from, 1, {})), std::system_error);
  std::stop_source stop;
  stop.request_stop();
  const buffer_config filled{.name = "demo", .size = 9, .source = memory::byte_fill{}};
  EXPECT_THROW(static_cast<void>(load_version(filled, 1, stop.get_token())), std::system_error);
}

TEST(find_bad_block, finds_the_first_that_changed) {
  constexpr auto block = memory::checksum_block_size;
  const auto v = load_version({.name = "a", .size = 3 * block + 1, .source = memory::counting_fill{}}, 1, {});
  EXPECT_EQ(find_bad_block(*v, {}), std::nullopt);
  const std::array wrong{std::byte{0xAA}};
  v->memory->write(3 * block, wrong);
  EXPECT_EQ(find_bad_block(*v, {}), 3U);
  v->memory->write(2 * block - 1, wrong);
  EXPECT_EQ(find_bad_block(*v, {}), 1U);
}

TEST(buffer_pool, finds_what_was_published) {
  const auto pool = pool_of({"a", "b"});
  ASSERT_TRUE(pool.find("b"));
  EXPECT_EQ(pool.find("b")->name, "b");
  EXPECT_FALSE(pool.find("c"));
  EXPECT_FALSE(pool.find("A"));
  EXPECT_FALSE(pool.find(""));
}

TEST(buffer_pool, serves_the_version_published_last_and_leaves_the_old_one_to_its_holders) {
  buffer_pool pool;
  pool.publish(version_of("a", 1));
  const auto held = pool.find("a");
  const std::weak_ptr unheld = held;
  pool.publish(version_of("a", 2));
  EXPECT_EQ(pool.find("a")->version, 2U);
  EXPECT_EQ(held->version, 1U);
  EXPECT_EQ(held.use_count(), 1) << "the pool still has it";
  EXPECT_EQ(pool.all().size(), 1U);
}

TEST(buffer_pool, numbers_versions_without_ever_using_a_number_twice) {
  buffer_pool pool;
  EXPECT_EQ(pool.next_version("a"), 1U);
  pool.publish(version_of("a", 1));
  EXPECT_EQ(pool.next_version("a"), 2U);
  EXPECT_EQ(pool.next_version("b"), 1U);
  pool.retire({.version = pool.find("a"), .until = {}, .replaced = false});
  EXPECT_EQ(pool.next_version("a"), 2U) << "although nothing has this name now";
}

TEST(buffer_pool, keeps_a_retired_version_until_it_is_forgotten) {
  auto pool = pool_of({"a"});
  const auto old = pool.find("a");
  pool.publish(version_of("a", 2));
  EXPECT_EQ(pool.retired(*old), nullptr);
  const retired_version::clock::time_point until{std::chrono::seconds{5}};
  pool.retire({.version = old, .until = until, .replaced = true});
  EXPECT_EQ(pool.find("a")->version, 2U);
  ASSERT_NE(pool.retired(*old), nullptr);
  EXPECT_EQ(pool.retired(*old)->until, until);
  EXPECT_EQ(pool.retired(*pool.find("a")), nullptr);
  EXPECT_EQ(pool.forget(*old), old);
  EXPECT_EQ(pool.forget(*old), nullptr);
  EXPECT_THAT(pool.all_retired(), IsEmpty());
}

TEST(buffer_pool, serves_nothing_between_a_version_that_goes_first_and_the_next) {
  auto pool = pool_of({"a", "b"});
  const auto old = pool.find("a");
  pool.withdraw("a", "it is being replaced");
  pool.retire({.version = old, .until = {}, .replaced = true});
  pool.retire({.version = pool.find("b"), .until = {}, .replaced = false});
  EXPECT_FALSE(pool.find("a"));
  EXPECT_EQ(pool.forget(*old), old);
  EXPECT_EQ(pool.why_withdrawn("a"), "it is being replaced") << "although its memory may go";
  EXPECT_EQ(pool.why_withdrawn("b"), "") << "it was removed";
  pool.publish(version_of("a", 2));
  EXPECT_EQ(pool.why_withdrawn("a"), "");
  EXPECT_EQ(pool.find("a")->version, 2U);
}

TEST(buffer_pool, forgets_why_a_buffer_was_out_of_service_once_it_is_removed) {
  auto pool = pool_of({"a"});
  pool.withdraw("a", "the GPU is lost");
  EXPECT_FALSE(pool.find("a"));
  EXPECT_EQ(pool.why_withdrawn("a"), "the GPU is lost");
  pool.withdraw("a", {});
  EXPECT_EQ(pool.why_withdrawn("a"), "");
}

TEST(buffer_pool, lists_pages_in_the_order_of_bytes) {
  const auto pool = pool_of({"b", "B", "a.1", "a", "10", "9", "a_1"});
  EXPECT_THAT(names_of(pool.all()), ElementsAre("10", "9", "B", "a", "a.1", "a_1", "b"));
  EXPECT_THAT(names_of(pool.list("", 3)), ElementsAre("10", "9", "B"));
  EXPECT_THAT(names_of(pool.list("B", 3)), ElementsAre("a", "a.1", "a_1"));
  EXPECT_THAT(names_of(pool.list("a_1", 3)), ElementsAre("b"));
  EXPECT_THAT(names_of(pool.list("b", 3)), IsEmpty());
  EXPECT_THAT(names_of(pool.list("aa", 3)), ElementsAre("b")) << "after a name that is not there";
  EXPECT_THAT(names_of(pool.list("", 0)), IsEmpty());
  EXPECT_THAT(names_of(buffer_pool{}.list("", 3)), IsEmpty());
}

TEST(buffer_pool, gives_everything_up_when_cleared) {
  auto pool = pool_of({"a", "b"});
  const std::weak_ptr a = pool.find("a");
  pool.clear();
  EXPECT_TRUE(a.expired());
  EXPECT_THAT(pool.all(), IsEmpty());
}

}  // namespace
}  // namespace gpurdma::daemon
