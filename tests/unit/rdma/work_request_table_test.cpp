#include "rdma/work_request_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "rdma/completion_queue.hpp"

namespace gpurdma::rdma {
namespace {

/// The table never calls it.
class owner_stub final : public work_owner {
  void on_completion(work_kind, std::uint32_t, const completion&) override {}
  void on_queue_lost(std::error_code) override {}
};

void expect_entry(const std::optional<work_request_table::entry>& found, const work_request_table::entry& expected) {
  ASSERT_TRUE(found);
  EXPECT_EQ(found->owner, expected.owner);
  EXPECT_EQ(found->kind, expected.kind);
  EXPECT_EQ(found->index, expected.index);
}

TEST(work_request_table, gives_back_what_was_posted_once) {
  owner_stub owner;
  work_request_table table;
  for (const auto kind : {work_kind::receive, work_kind::send, work_kind::read}) {
    const work_request_table::entry posted{.owner = &owner, .kind = kind, .index = 0xFFFF'FFFF};
    const auto id = table.add(posted);
    EXPECT_EQ(table.size(), 1U);
    expect_entry(table.take(id), posted);
    EXPECT_EQ(table.size(), 0U);
    EXPECT_FALSE(table.take(id)) << "a second completion";
  }
}

TEST(work_request_table, does_not_know_ids_that_it_never_gave) {
  owner_stub owner;
  work_request_table table;
  EXPECT_FALSE(table.take(0));
  const auto id = table.add({&owner, work_kind::send, 0});
  EXPECT_NE(id, 0U);
  EXPECT_FALSE(table.take(0));
  EXPECT_FALSE(table.take(~std::uint64_t{0}));
  for (unsigned bit = 0; bit < 64; ++bit) {
    EXPECT_FALSE(table.take(id ^ std::uint64_t{1} << bit)) << "bit " << bit;
  }
  EXPECT_TRUE(table.take(id));
}

TEST(work_request_table, tells_kinds_apart) {
  owner_stub owner;
  work_request_table table;
  const auto sent = table.add({&owner, work_kind::send, 0});
  ASSERT_TRUE(table.take(sent));
  const auto received = table.add({&owner, work_kind::receive, 0});
  // The kind's bits, as the header documents them.
  const auto as_read = (received & ~(std::uint64_t{0xF} << 28U)) | std::uint64_t{3} << 28U;
  EXPECT_FALSE(table.take(as_read));
  EXPECT_TRUE(table.take(received));
}

TEST(work_request_table, uses_a_slot_again_under_another_id) {
  owner_stub owner;
  work_request_table table;
  std::set<std::uint64_t> ids;
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    const auto id = table.add({&owner, work_kind::read, i});
    ASSERT_TRUE(ids.insert(id).second) << "given twice";
    ASSERT_EQ(id & 0xFFF'FFFFU, 0U) << "another slot, though one was free";
    expect_entry(table.take(id), {&owner, work_kind::read, i});
  }
  for (const auto old : ids) {
    ASSERT_FALSE(table.take(old));
  }
}

TEST(work_request_table, forgets_an_owner_and_none_else) {
  owner_stub going;
  owner_stub staying;
  work_request_table table;
  std::vector<std::uint64_t> of_going;
  std::vector<std::uint64_t> of_staying;
  for (std::uint32_t i = 0; i < 100; ++i) {
    of_going.push_back(table.add({&going, work_kind::receive, i}));
    of_staying.push_back(table.add({&staying, work_kind::read, i}));
  }
  table.forget(going);
  EXPECT_EQ(table.size(), 100U);
  table.forget(going);
  EXPECT_EQ(table.size(), 100U);

  // Slots of the forgotten are taken by others; late completions must not end those.
  for (std::uint32_t i = 0; i < 100; ++i) {
    of_staying.push_back(table.add({&staying, work_kind::receive, 100 + i}));
  }
  for (const auto id : of_going) {
    EXPECT_FALSE(table.take(id));
  }
  for (std::uint32_t i = 0; i < 200; ++i) {
    expect_entry(table.take(of_staying.at(i)), {&staying, i < 100 ? work_kind::read : work_kind::receive, i});
  }
  EXPECT_EQ(table.size(), 0U);
}

TEST(work_request_table, keeps_thousands_apart_in_any_order) {
  std::array<owner_stub, 16> owners;
  work_request_table table;
  std::map<std::uint64_t, work_request_table::entry> posted;
  std::vector<std::uint64_t> ended;
  std::mt19937 engine{42};
  for (std::uint32_t i = 0; i < 50'000; ++i) {
    if (posted.empty() || (posted.size() < 5'000 && engine() % 2 == 0)) {
      const work_request_table::entry e{&owners.at(engine() % owners.size()), static_cast<work_kind>(1 + engine() % 3),
                                        i};
      ASSERT_TRUE(posted.emplace(table.add(e), e).second);
    } else {
      auto next = posted.lower_bound(engine() * std::uint64_t{1} << 10U);
      next = next == posted.end() ? posted.begin() : next;
      expect_entry(table.take(next->first), next->second);
      ended.push_back(next->first);
      posted.erase(next);
    }
    ASSERT_EQ(table.size(), posted.size());
  }
  for (const auto id : ended) {
    ASSERT_FALSE(table.take(id));
  }
  for (const auto& [id, e] : posted) {
    expect_entry(table.take(id), e);
  }
  EXPECT_EQ(table.size(), 0U);
}

}  // namespace
}  // namespace gpurdma::rdma
