#include "protocol/server_conversation.hpp"

#include <gtest/gtest.h>

#include "protocol/codec.hpp"
#include "support.hpp"

namespace gpurdma::protocol {
namespace {

using namespace std::chrono_literals;
using clock = server_conversation::clock;
using transmit = server_conversation::transmit;
using serve = server_conversation::serve;
using hang_up = server_conversation::hang_up;

class server_talk : public testing::Test {
 protected:
  server_conversation::actions say(std::uint32_t id, body content) {
    return server.on_message(encode(message{id, std::move(content)}), now);
  }

  /// The one action, as the message that it sends.
  static message sent(const server_conversation::actions& todo) {
    EXPECT_EQ(todo.size(), 1U);
    return decode(std::get<transmit>(todo.at(0)).bytes).value();
  }

  /// That the server said why, hung up, and is done.
  void expect_end(const server_conversation::actions& todo, errc why) {
    ASSERT_EQ(todo.size(), 2U);
    const auto last_word = decode(std::get<transmit>(todo[0]).bytes).value();
    EXPECT_EQ(last_word.request_id, 0U);
    EXPECT_EQ(std::get<error>(last_word.content).code, why);
    EXPECT_FALSE(std::get<error>(last_word.content).sentence.empty());
    EXPECT_EQ(std::get<hang_up>(todo[1]).reason, why);
    expect_silence();
  }

  void expect_silence() {
    EXPECT_TRUE(say(77, renew{1}).empty());
    EXPECT_TRUE(say(0, ping{}).empty());
    EXPECT_TRUE(server.on_message({}, now).empty());
    EXPECT_TRUE(server.reply(1, renewed{}).empty());
    EXPECT_TRUE(server.notify({}).empty());
    EXPECT_TRUE(server.on_time(now + 1h).empty());
    EXPECT_EQ(server.next_deadline(), clock::time_point::max());
  }

  clock::time_point now{};
  server_conversation server{{.credits = 2, .ping_interval = 10s, .silence_limit = 30s}, now};
};

TEST_F(server_talk, serves_every_kind_of_request_and_sends_its_answer) {
  const std::pair<body, body> talk[] = {{open{"demo"}, lease{.id = 5}},
                                        {get_checksums{5, 0, 1}, checksums{0, {1}}},
                                        {renew{5}, renewed{5, 1000}},
                                        {release{5, 0}, released{5}},
                                        {list{}, listing{}},
                                        {open{"none"}, error{errc::unknown_buffer, "no such buffer"}}};
  std::uint32_t id = 0;
  for (const auto& [request, answer] : talk) {
    ++id;
    const auto todo = say(id, request);
    ASSERT_EQ(todo.size(), 1U);
    EXPECT_EQ(std::get<serve>(todo[0]).request_id, id);
    EXPECT_EQ(std::get<serve>(todo[0]).request, request);
    EXPECT_EQ(sent(server.reply(id, answer)), (message{id, answer}));
  }
}

TEST_F(server_talk, takes_replies_in_any_order_and_each_once) {
  static_cast<void>(say(1, renew{5}));
  static_cast<void>(say(2, renew{6}));
  EXPECT_EQ(sent(server.reply(2, renewed{6})).request_id, 2U);
  EXPECT_EQ(sent(server.reply(1, renewed{5})).request_id, 1U);
  EXPECT_TRUE(server.reply(1, renewed{5}).empty());
  EXPECT_TRUE(server.reply(3, renewed{5}).empty());
}

TEST_F(server_talk, ends_with_a_client_that_asks_more_than_it_was_granted) {
  static_cast<void>(say(1, renew{5}));
  static_cast<void>(say(2, renew{5}));
  expect_end(say(3, renew{5}), errc::too_many_requests);
}

TEST_F(server_talk, gives_a_credit_back_with_each_reply) {
  for (std::uint32_t id = 1; id < 100; ++id) {
    ASSERT_EQ(say(id, renew{5}).size(), 1U);
    if (id > 1) {
      ASSERT_EQ(server.reply(id - 1, renewed{5}).size(), 1U);
    }
  }
}

TEST_F(server_talk, ends_at_an_id_that_is_still_unanswered) {
  static_cast<void>(say(1, renew{5}));
  expect_end(say(1, renew{5}), errc::unexpected_message);
}

TEST_F(server_talk, takes_an_id_again_that_was_answered) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(std::holds_alternative<serve>(say(1, renew{5}).at(0)));
    EXPECT_EQ(sent(server.reply(1, renewed{5})).request_id, 1U);
  }
}

TEST_F(server_talk, ends_at_a_request_with_id_zero) { expect_end(say(0, renew{5}), errc::unexpected_message); }

TEST_F(server_talk, ends_at_every_message_that_only_a_server_says) {
  for (const auto& m : {body{lease{}}, body{checksums{0, {1}}}, body{renewed{}}, body{released{}}, body{listing{}},
                        body{error{}}, body{notice{}}}) {
    server = server_conversation{{2, 10s, 30s}, now};
    expect_end(say(1, m), errc::unexpected_message);
  }
}

TEST_F(server_talk, ends_at_a_malformed_message) {
  expect_end(server.on_message(test::hex("01 00 08 00 01 00 00 00"), now), errc::malformed_message);
}

TEST_F(server_talk, ends_at_a_message_longer_than_a_request_may_be) {
  const auto long_one = encode(message{1, checksums{0, std::vector<std::uint32_t>(100)}});
  ASSERT_GT(long_one.size(), max_request_size);
  expect_end(server.on_message(long_one, now), errc::malformed_message);
}

TEST_F(server_talk, answers_pings_whatever_the_credits) {
  static_cast<void>(say(1, renew{5}));
  static_cast<void>(say(2, renew{5}));
  EXPECT_EQ(sent(say(99, ping{})), (message{99, pong{}}));
  EXPECT_EQ(sent(say(0, ping{})), (message{0, pong{}}));
}

TEST_F(server_talk, ignores_a_pong_that_it_did_not_ask_for) { EXPECT_TRUE(say(5, pong{}).empty()); }

TEST_F(server_talk, sends_a_notice_under_id_zero) {
  const notice n{notice_kind::buffer_replaced, errc::version_replaced, 5, "newer"};
  EXPECT_EQ(sent(server.notify(n)), (message{0, n}));
}

TEST_F(server_talk, pings_a_silent_client_once_and_then_gives_it_up) {
  EXPECT_EQ(server.next_deadline(), now + 10s);
  EXPECT_TRUE(server.on_time(now + 10s - 1ms).empty());
  EXPECT_EQ(sent(server.on_time(now + 10s)), (message{0, ping{}}));
  EXPECT_EQ(server.next_deadline(), now + 30s);
  EXPECT_TRUE(server.on_time(now + 30s - 1ms).empty());
  const auto todo = server.on_time(now + 30s);
  ASSERT_EQ(todo.size(), 1U) << "a silent client takes no last word";
  EXPECT_EQ(std::get<hang_up>(todo[0]).reason, errc::peer_silent);
  expect_silence();
}

TEST_F(server_talk, pings_again_after_a_pong) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(sent(server.on_time(now + 10s)), (message{0, ping{}}));
    now += 29s;
    EXPECT_TRUE(say(0, pong{}).empty());
    EXPECT_EQ(server.next_deadline(), now + 10s);
  }
}

TEST_F(server_talk, counts_every_message_as_a_sign_of_life) {
  for (std::uint32_t id = 1; id < 10; ++id) {
    now += 9s;
    EXPECT_TRUE(server.on_time(now).empty());
    static_cast<void>(id % 2 == 0 ? say(id, ping{}) : say(id, renew{5}));
    static_cast<void>(server.reply(id, renewed{5}));
    EXPECT_EQ(server.next_deadline(), now + 10s);
  }
}

TEST_F(server_talk, does_not_count_its_own_answers_as_a_sign_of_life) {
  static_cast<void>(say(1, renew{5}));
  static_cast<void>(server.reply(1, renewed{5}));
  static_cast<void>(server.notify({}));
  EXPECT_EQ(server.next_deadline(), now + 10s);
}

TEST_F(server_talk, gives_up_at_once_when_it_is_asked_late) {
  const auto todo = server.on_time(now + 1h);
  EXPECT_EQ(std::get<hang_up>(todo.at(0)).reason, errc::peer_silent);
}

}  // namespace
}  // namespace gpurdma::protocol
