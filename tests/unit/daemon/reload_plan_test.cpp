#include "daemon/reload_plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/files.hpp"

namespace gpurdma::daemon {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

buffer_config filled(const std::string& name, std::size_t size = 4096) {
  return {.name = name, .size = size, .source = memory::byte_fill{std::byte{'R'}}};
}

config with_buffers(const std::vector<buffer_config>& buffers) {
  config c;
  c.listen = {rdma::endpoint::parse("0.0.0.0", 7471)};
  c.buffers = buffers;
  return c;
}

/// What a server that serves `now` would do, once the configuration is `wanted`.
reload_plan plan(const std::vector<buffer_config>& now, const config& wanted,
                 const std::map<std::string, source_identity>& changed = {},
                 const std::set<std::string>& republish = {}) {
  served_buffers served;
  for (const auto& b : now) {
    served.emplace(b.name, served_buffer{b, {}});
  }
  std::map<std::string, source_identity> sources{changed};
  for (const auto& b : wanted.buffers) {
    sources.emplace(b.name, source_identity{});
  }
  return plan_reload(with_buffers(now), served, wanted, sources, republish);
}

std::vector<std::string> names_of(const std::vector<buffer_config>& buffers) {
  std::vector<std::string> names;
  for (const auto& b : buffers) {
    names.push_back(b.name);
  }
  return names;
}

TEST(reload_plan, keeps_everything_where_nothing_changed) {
  const std::vector now{filled("a"), filled("b")};
  const auto p = plan(now, with_buffers(now));
  EXPECT_THAT(p.kept, ElementsAre("a", "b"));
  EXPECT_THAT(p.added, IsEmpty());
  EXPECT_THAT(p.replaced, IsEmpty());
  EXPECT_THAT(p.removed, IsEmpty());
  EXPECT_THAT(p.needs_restart, IsEmpty());
}

TEST(reload_plan, tells_added_removed_and_replaced_apart) {
  const auto p = plan({filled("gone"), filled("same"), filled("other")},
                      with_buffers({filled("new"), filled("other", 8192), filled("same")}));
  EXPECT_THAT(names_of(p.added), ElementsAre("new"));
  EXPECT_THAT(names_of(p.replaced), ElementsAre("other"));
  EXPECT_THAT(p.removed, ElementsAre("gone"));
  EXPECT_THAT(p.kept, ElementsAre("same"));
}

TEST(reload_plan, replaces_a_buffer_whose_file_is_another_or_was_written) {
  const std::vector now{filled("a")};
  for (const auto& identity : {source_identity{.device = 1}, source_identity{.inode = 1}, source_identity{.size = 1},
                               source_identity{.changed = 1}, source_identity{.changed_ns = 1}}) {
    EXPECT_THAT(names_of(plan(now, with_buffers(now), {{"a", identity}}).replaced), ElementsAre("a"));
  }
}

TEST(reload_plan, replaces_what_is_to_be_published_again) {
  const std::vector now{filled("a"), filled("b")};
  const auto p = plan(now, with_buffers(now), {}, {"b"});
  EXPECT_THAT(names_of(p.replaced), ElementsAre("b"));
  EXPECT_THAT(p.kept, ElementsAre("a"));
}

TEST(reload_plan, does_not_replace_for_another_way_to_replace) {
  auto drained = filled("a");
  drained.replace = replacement::drain;
  EXPECT_THAT(plan({filled("a")}, with_buffers({drained})).kept, ElementsAre("a"));
}

TEST(reload_plan, makes_a_buffer_that_failed_before) {
  config current = with_buffers({filled("a")});
  const auto p = plan_reload(current, {}, current, {{"a", {}}}, {});
  EXPECT_THAT(names_of(p.added), ElementsAre("a"));
}

TEST(reload_plan, names_what_needs_a_restart_and_leaves_it_as_it_is) {
  const auto current = with_buffers({filled("a")});
  auto wanted = current;
  wanted.listen.push_back(rdma::endpoint::parse("::", 7471));
  wanted.keys = isolation::lease;
  wanted.control.socket = "/elsewhere";
  wanted.max_clients = 7;
  EXPECT_THAT(plan({filled("a")}, wanted).needs_restart, ElementsAre("listen", "security: isolation", "control"));
  const auto after = in_force_after_reload(current, wanted);
  EXPECT_EQ(after.listen.size(), 1U);
  EXPECT_EQ(after.keys, isolation::principal);
  EXPECT_EQ(after.control, current.control);
  EXPECT_EQ(after.max_clients, 7U);
}

TEST(reload_plan, does_not_mind_the_order_of_addresses) {
  auto current = with_buffers({filled("a")});
  current.listen.push_back(rdma::endpoint::parse("::", 7471));
  auto wanted = current;
  std::swap(wanted.listen[0], wanted.listen[1]);
  EXPECT_THAT(plan_reload(current, {}, wanted, {{"a", {}}}, {}).needs_restart, IsEmpty());
}

TEST(identify, tells_files_apart_and_sees_when_they_were_written) {
  const test::scratch_folder folder;
  const memory::content_source a = memory::file_source{folder.write("a", "12")};
  const memory::content_source b = memory::file_source{folder.write("b", "12")};
  const auto before = identify(a);
  EXPECT_EQ(before, identify(a));
  EXPECT_NE(before, identify(b));
  folder.write("a", "123");
  EXPECT_NE(before, identify(a));
  EXPECT_EQ(identify(memory::byte_fill{}), source_identity{});
  EXPECT_EQ(identify(memory::file_source{"/nonexistent"}), source_identity{});
}

}  // namespace
}  // namespace gpurdma::daemon
