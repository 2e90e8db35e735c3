#include "protocol/client_conversation.hpp"

#include <gtest/gtest.h>

#include "protocol/codec.hpp"
#include "support.hpp"

namespace gpurdma::protocol {
namespace {

using namespace std::chrono_literals;
using clock = client_conversation::clock;
using transmit = client_conversation::transmit;
using answered = client_conversation::answered;
using noticed = client_conversation::noticed;
using hang_up = client_conversation::hang_up;

struct exchange {
  body request;
  body answer;
};

std::vector<exchange> exchanges() {
  return {{open{"demo"}, lease{.id = 5}},
          {get_checksums{5, 3, 2}, checksums{3, {1, 2}}},
          {renew{5}, renewed{5, 1000}},
          {release{5, 0}, released{5}},
          {list{"b"}, listing{{{"c", 1, 1}, {"d", 1, 1}}, true}}};
}

class client_talk : public testing::Test {
 protected:
  client_conversation::actions ask(body request) {
    client_conversation::actions todo;
    last_id = client.request(std::move(request), now, todo);
    return todo;
  }
  client_conversation::actions hear(std::uint32_t id, body content) {
    return client.on_message(encode(message{id, std::move(content)}), now);
  }
  static message sent(const client_conversation::actions& todo, std::size_t which = 0) {
    return decode(std::get<transmit>(todo.at(which)).bytes).value();
  }
  void expect_end(const client_conversation::actions& todo, errc why) {
    ASSERT_EQ(todo.size(), 1U);
    EXPECT_EQ(std::get<hang_up>(todo[0]).reason, why);
    expect_silence();
  }
  void expect_silence() {
    EXPECT_TRUE(ask(renew{1}).empty());
    EXPECT_TRUE(hear(last_id, renewed{1}).empty());
    EXPECT_TRUE(hear(0, ping{}).empty());
    EXPECT_TRUE(hear(0, notice{}).empty());
    EXPECT_TRUE(client.on_message({}, now).empty());
    EXPECT_TRUE(client.on_time(now + 1h).empty());
    EXPECT_EQ(client.next_deadline(), clock::time_point::max());
  }
  void start_anew() { client = client_conversation{{.credits = 2, .request_timeout = 5s}}; }

  clock::time_point now{};
  client_conversation client{{.credits = 2, .request_timeout = 5s}};
  std::uint32_t last_id = 0;
};

TEST_F(client_talk, sends_every_kind_of_request_and_reports_its_answer) {
  for (const auto& e : exchanges()) {
    const auto todo = ask(e.request);
    ASSERT_EQ(todo.size(), 1U);
    EXPECT_EQ(sent(todo), (message{last_id, e.request}));
    const auto heard = hear(last_id, e.answer);
    ASSERT_EQ(heard.size(), 1U);
    EXPECT_EQ(std::get<answered>(heard[0]).request_id, last_id);
    EXPECT_EQ(std::get<answered>(heard[0]).answer, e.answer);
  }
}

TEST_F(client_talk, reports_an_error_as_the_answer_to_any_request) {
  const body refused = error{errc::unknown_lease, "none such"};
  for (const auto& e : exchanges()) {
    static_cast<void>(ask(e.request));
    EXPECT_EQ(std::get<answered>(hear(last_id, refused).at(0)).answer, refused);
  }
}

TEST_F(client_talk, ends_at_an_answer_of_the_wrong_type) {
  for (const auto& asked : exchanges()) {
    for (const auto& other : exchanges()) {
      for (const auto& wrong : {other.answer, other.request, body{pong{}}}) {
        if (wrong.index() != asked.answer.index()) {
          start_anew();
          static_cast<void>(ask(asked.request));
          expect_end(hear(last_id, wrong), errc::unexpected_message);
        }
      }
    }
  }
}

TEST_F(client_talk, ends_at_an_answer_that_is_about_something_else) {
  const exchange wrong[] = {{get_checksums{5, 3, 2}, checksums{4, {1, 2}}},
                            {get_checksums{5, 3, 2}, checksums{3, {1}}},
                            {get_checksums{5, 3, 2}, checksums{3, {1, 2, 3}}},
                            {renew{5}, renewed{6, 1000}},
                            {release{5, 0}, released{6}}};
  for (const auto& w : wrong) {
    start_anew();
    static_cast<void>(ask(w.request));
    expect_end(hear(last_id, w.answer), errc::unexpected_message);
  }
}

TEST_F(client_talk, ends_at_a_listing_with_which_paging_would_not_end) {
  const listing wrong[] = {{{{"b", 1, 1}}, true},
                           {{{"a", 1, 1}}, true},
                           {{{"d", 1, 1}, {"c", 1, 1}}, true},
                           {{{"c", 1, 1}, {"c", 1, 1}}, false}};
  for (const auto& w : wrong) {
    start_anew();
    static_cast<void>(ask(list{"b"}));
    expect_end(hear(last_id, w), errc::unexpected_message);
  }
}

TEST_F(client_talk, takes_an_empty_listing) {
  static_cast<void>(ask(list{"b"}));
  EXPECT_EQ(std::get<answered>(hear(last_id, listing{}).at(0)).answer, body{listing{}});
}

TEST_F(client_talk, ends_at_a_second_answer) {
  static_cast<void>(ask(renew{5}));
  const auto id = last_id;
  static_cast<void>(hear(id, renewed{5}));
  expect_end(hear(id, renewed{5}), errc::unexpected_message);
}

TEST_F(client_talk, ends_at_an_answer_to_nothing) {
  static_cast<void>(ask(renew{5}));
  expect_end(hear(last_id + 1, renewed{5}), errc::unexpected_message);
}

TEST_F(client_talk, ends_at_an_answer_to_a_request_that_waits_for_a_credit) {
  for (std::uint64_t lease_id : {5U, 6U, 7U}) {
    static_cast<void>(ask(renew{lease_id}));
  }
  expect_end(hear(last_id, renewed{7}), errc::unexpected_message);
}

TEST_F(client_talk, ends_at_a_malformed_message) {
  expect_end(client.on_message(test::hex("0d 00 09 00 00 00 00 00"), now), errc::malformed_message);
}

TEST_F(client_talk, ends_with_the_reason_that_the_server_gives_as_its_last_word) {
  static_cast<void>(ask(renew{5}));
  expect_end(hear(0, error{errc::too_many_requests, "slower"}), errc::too_many_requests);
}

TEST_F(client_talk, keeps_requests_until_a_credit_is_free_and_their_order) {
  EXPECT_EQ(ask(renew{1}).size(), 1U);
  EXPECT_EQ(ask(renew{2}).size(), 1U);
  EXPECT_TRUE(ask(renew{3}).empty());
  EXPECT_TRUE(ask(renew{4}).empty());
  const auto second = hear(2, renewed{2});
  ASSERT_EQ(second.size(), 2U);
  EXPECT_EQ(std::get<answered>(second[0]).request_id, 2U);
  EXPECT_EQ(sent(second, 1), (message{3, renew{3}}));
  EXPECT_EQ(sent(hear(1, renewed{1}), 1), (message{4, renew{4}}));
  EXPECT_EQ(hear(3, renewed{3}).size(), 1U);
}

TEST_F(client_talk, gives_each_request_an_id_of_its_own_but_zero) {
  for (std::uint32_t id = 1; id < 10; ++id) {
    static_cast<void>(ask(renew{5}));
    EXPECT_EQ(last_id, id);
  }
}

TEST_F(client_talk, answers_a_ping_with_its_id) {
  EXPECT_EQ(sent(hear(0, ping{})), (message{0, pong{}}));
  EXPECT_EQ(sent(hear(9, ping{})), (message{9, pong{}}));
}

TEST_F(client_talk, reports_a_notice) {
  const notice n{notice_kind::lease_revoked, errc::lease_expired, 5, "too late"};
  const auto todo = hear(0, n);
  ASSERT_EQ(todo.size(), 1U);
  EXPECT_EQ(std::get<noticed>(todo[0]).what, n);
}

TEST_F(client_talk, waits_for_nothing_when_it_asked_nothing) {
  EXPECT_EQ(client.next_deadline(), clock::time_point::max());
  EXPECT_TRUE(client.on_time(now + 1h).empty());
}

TEST_F(client_talk, ends_when_an_answer_is_overdue) {
  static_cast<void>(ask(renew{5}));
  EXPECT_EQ(client.next_deadline(), now + 5s);
  EXPECT_TRUE(client.on_time(now + 5s - 1ms).empty());
  expect_end(client.on_time(now + 5s), errc::reply_overdue);
}

TEST_F(client_talk, waits_for_the_oldest_unanswered_request) {
  const auto start = now;
  static_cast<void>(ask(renew{1}));
  now += 1s;
  static_cast<void>(ask(renew{2}));
  EXPECT_EQ(client.next_deadline(), start + 5s);
  static_cast<void>(hear(1, renewed{1}));
  EXPECT_EQ(client.next_deadline(), start + 6s);
}

TEST_F(client_talk, counts_the_time_from_sending_not_from_asking) {
  for (std::uint64_t lease_id : {1U, 2U, 3U}) {
    static_cast<void>(ask(renew{lease_id}));
  }
  now += 4s;
  static_cast<void>(hear(1, renewed{1}));
  static_cast<void>(hear(2, renewed{2}));
  EXPECT_EQ(client.next_deadline(), now + 5s);
}

}  // namespace
}  // namespace gpurdma::protocol
