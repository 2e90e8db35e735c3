// Both machines against each other, over a wire in memory that may lose, repeat and garble what is sent.

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>

#include "protocol/client_conversation.hpp"
#include "protocol/codec.hpp"
#include "protocol/server_conversation.hpp"
#include "support.hpp"

namespace gpurdma::protocol {
namespace {

using namespace std::chrono_literals;
using clock = server_conversation::clock;
using test::bytes;
using test::dice;

/// What the wire does to one message in so many; 0 is never.
struct faults {
  std::size_t garble = 0;
  std::size_t repeat = 0;
  std::size_t lose = 0;
};

/// The type of the answer that belongs to a request; written down again here, not taken from the code under test.
std::size_t answer_index(const body& request) {
  const std::map<std::size_t, std::size_t> belongs{{body{open{}}.index(), body{lease{}}.index()},
                                                   {body{get_checksums{}}.index(), body{checksums{}}.index()},
                                                   {body{renew{}}.index(), body{renewed{}}.index()},
                                                   {body{release{}}.index(), body{released{}}.index()},
                                                   {body{list{}}.index(), body{listing{}}.index()}};
  const auto found = belongs.find(request.index());
  return found == belongs.end() ? std::variant_npos : found->second;
}

/// A client and a server with the wire between them; checks what must always hold.
class talk {
 public:
  static constexpr auto request_timeout = 20s;
  static constexpr auto ping_interval = 10s;
  static constexpr auto silence_limit = 30s;

  explicit talk(std::size_t credits, faults f = {}, std::uint64_t seed = 0)
      : d{seed},
        faults_{f},
        credits_{credits},
        client_{{.credits = credits, .request_timeout = request_timeout}},
        server_{{.credits = credits, .ping_interval = ping_interval, .silence_limit = silence_limit}, now} {}

  std::uint32_t ask(body request) {
    client_conversation::actions todo;
    const auto id = client_.request(request, now, todo);
    EXPECT_NE(id, 0U);
    if (!client_over) {
      EXPECT_TRUE(asked_.emplace(id, std::move(request)).second);
    }
    client_does(std::move(todo));
    return id;
  }

  /// The server's work on one request is done, in any order.
  void serve_one() {
    if (work_.empty()) {
      return;
    }
    const auto at = work_.begin() + static_cast<std::ptrdiff_t>(d.below(work_.size()));
    const auto [id, request] = *at;
    work_.erase(at);
    if (!server_over) {
      served_.erase(id);
    }
    server_does(server_.reply(id, answer_to(request)));
  }

  void deliver_to_server() {
    if (!to_server.empty()) {
      const auto b = std::move(to_server.front());
      to_server.pop_front();
      server_does(server_.on_message(b, now));
    }
  }
  void deliver_to_client() {
    if (!to_client.empty()) {
      const auto b = std::move(to_client.front());
      to_client.pop_front();
      client_does(client_.on_message(b, now));
    }
  }
  void notify(notice n) { server_does(server_.notify(std::move(n))); }
  void pass(std::chrono::milliseconds time) {
    now += time;
    server_does(server_.on_time(now));
    client_does(client_.on_time(now));
    EXPECT_GT(server_.next_deadline(), now) << "a deadline that stays would be a busy loop";
    EXPECT_GT(client_.next_deadline(), now);
  }

  void settle() {
    while (!to_server.empty() || !to_client.empty() || !work_.empty()) {
      deliver_to_server();
      serve_one();
      deliver_to_client();
    }
  }

  /// Anything that may happen next.
  void step() {
    switch (d.below(8)) {
      case 0:
        static_cast<void>(ask(some_request()));
        break;
      case 1:
      case 2:
        deliver_to_server();
        break;
      case 3:
      case 4:
        deliver_to_client();
        break;
      case 5:
        serve_one();
        break;
      case 6:
        pass(std::chrono::milliseconds{d.below(d.one_in(50) ? 12000 : 200)});
        break;
      default:
        if (d.one_in(10)) {
          notify({notice_kind::buffer_replaced, errc::version_replaced, d.below(9), "there is a newer one"});
        }
    }
  }

  body some_request() {
    switch (d.below(5)) {
      case 0:
        return open{"demo", d.number(), d.number()};
      case 1:
        return get_checksums{d.below(9), d.below(9), static_cast<std::uint32_t>(1 + d.below(max_checksums_in_reply))};
      case 2:
        return renew{d.below(9)};
      case 3:
        return release{d.below(9), d.number()};
      default:
        return list{d.one_in(2) ? "" : "m"};
    }
  }

  dice d;
  clock::time_point now{};
  std::deque<bytes> to_server;
  std::deque<bytes> to_client;
  std::map<std::uint32_t, body> answers;  ///< that the client reported
  std::size_t requests_asked() const { return asked_.size(); }
  std::vector<notice> notices;
  std::size_t most_unanswered = 0;
  std::error_code client_over;
  std::error_code server_over;

 private:
  body answer_to(const body& request) {
    if (d.one_in(5)) {
      return error{errc::unknown_lease, "none such"};
    }
    if (const auto* const asked = std::get_if<get_checksums>(&request)) {
      return checksums{asked->first_block, std::vector<std::uint32_t>(asked->count, 7)};
    }
    if (const auto* const asked = std::get_if<renew>(&request)) {
      return renewed{asked->lease_id, 1000};
    }
    if (const auto* const asked = std::get_if<release>(&request)) {
      return released{asked->lease_id};
    }
    if (std::holds_alternative<list>(request)) {
      return listing{{{"n", 1, 1}, {"o", 2, 1}}, d.one_in(2)};
    }
    return lease{.id = d.below(9), .address = d.number(), .length = d.number(), .duration_ms = 1000};
  }

  void put(std::deque<bytes>& wire, bytes b) {
    if (faults_.lose != 0 && d.one_in(faults_.lose)) {
      return;
    }
    if (faults_.garble != 0 && d.one_in(faults_.garble)) {
      if (d.one_in(4)) {
        b.resize(d.below(b.size() + 9));
      } else {
        // Mostly the fields that decide what the message is.
        b.at(d.below(d.one_in(2) ? 8 : b.size())) ^= static_cast<std::byte>(1U << d.below(d.one_in(2) ? 3 : 8));
      }
    }
    if (faults_.repeat != 0 && d.one_in(faults_.repeat)) {
      wire.push_back(b);
    }
    wire.push_back(std::move(b));
  }

  void client_does(client_conversation::actions todo) {
    EXPECT_TRUE(!client_over || todo.empty()) << "it spoke after it had hung up";
    for (auto& action : todo) {
      EXPECT_FALSE(client_over) << "hang_up was not the last action";
      if (auto* const t = std::get_if<client_conversation::transmit>(&action)) {
        const auto m = decode(t->bytes);
        ASSERT_TRUE(m);
        if (!std::holds_alternative<pong>(m->content)) {
          ASSERT_TRUE(asked_.contains(m->request_id));
          EXPECT_EQ(m->content, asked_[m->request_id]);
          EXPECT_TRUE(sent_.insert(m->request_id).second) << "sent twice";
        }
        put(to_server, std::move(t->bytes));
      } else if (auto* const a = std::get_if<client_conversation::answered>(&action)) {
        ASSERT_TRUE(sent_.contains(a->request_id));
        EXPECT_TRUE(a->answer.index() == body{error{}}.index() ||
                    a->answer.index() == answer_index(asked_[a->request_id]));
        EXPECT_TRUE(answers.emplace(a->request_id, std::move(a->answer)).second) << "answered twice";
      } else if (auto* const n = std::get_if<client_conversation::noticed>(&action)) {
        notices.push_back(std::move(n->what));
      } else {
        client_over = std::get<client_conversation::hang_up>(action).reason;
        EXPECT_TRUE(client_over);
      }
    }
    most_unanswered = std::max(most_unanswered, sent_.size() - answers.size());
    EXPECT_LE(sent_.size() - answers.size(), credits_);
  }

  void server_does(server_conversation::actions todo) {
    EXPECT_TRUE(!server_over || todo.empty()) << "it spoke after it had hung up";
    for (auto& action : todo) {
      EXPECT_FALSE(server_over) << "hang_up was not the last action";
      if (auto* const t = std::get_if<server_conversation::transmit>(&action)) {
        EXPECT_TRUE(decode(t->bytes));
        put(to_client, std::move(t->bytes));
      } else if (auto* const s = std::get_if<server_conversation::serve>(&action)) {
        EXPECT_NE(answer_index(s->request), std::variant_npos);
        EXPECT_NE(s->request_id, 0U);
        EXPECT_TRUE(served_.insert(s->request_id).second) << "an id twice at once";
        work_.emplace_back(s->request_id, std::move(s->request));
      } else {
        server_over = std::get<server_conversation::hang_up>(action).reason;
        EXPECT_TRUE(server_over);
      }
    }
    EXPECT_LE(served_.size(), credits_);
  }

  faults faults_;
  std::size_t credits_;
  client_conversation client_;
  server_conversation server_;
  std::map<std::uint32_t, body> asked_;
  std::set<std::uint32_t> sent_;
  std::set<std::uint32_t> served_;
  std::vector<std::pair<std::uint32_t, body>> work_;
};

TEST(conversations, answer_every_kind_of_request) {
  talk t{4};
  for (const auto& request : {body{open{"demo"}}, body{get_checksums{1, 0, 120}}, body{renew{1}}, body{release{1, 9}},
                              body{list{}}, body{list{"m"}}}) {
    const auto id = t.ask(request);
    t.settle();
    EXPECT_TRUE(t.answers.contains(id));
  }
  EXPECT_FALSE(t.client_over);
  EXPECT_FALSE(t.server_over);
}

TEST(conversations, exhaust_the_credits_and_refill_them) {
  for (std::size_t credits : {1U, 2U, 7U}) {
    talk t{credits};
    for (std::uint64_t i = 0; i < 100; ++i) {
      t.ask(renew{i});
    }
    EXPECT_EQ(t.to_server.size(), credits);
    t.settle();
    EXPECT_EQ(t.answers.size(), 100U);
    EXPECT_EQ(t.most_unanswered, credits);
    EXPECT_FALSE(t.client_over);
    EXPECT_FALSE(t.server_over);
  }
}

TEST(conversations, go_on_for_ever_while_pings_are_answered) {
  talk t{1};
  for (int i = 0; i < 1000; ++i) {
    t.pass(1s);
    t.settle();
  }
  EXPECT_FALSE(t.client_over);
  EXPECT_FALSE(t.server_over);
}

TEST(conversations, end_when_the_client_falls_silent) {
  talk t{1};
  for (int i = 0; i < 31; ++i) {
    t.pass(1s);
    t.to_client.clear();
  }
  EXPECT_EQ(t.server_over, errc::peer_silent);
}

TEST(conversations, end_when_an_answer_is_lost) {
  talk t{1};
  t.ask(renew{1});
  t.deliver_to_server();
  t.serve_one();
  t.to_client.clear();
  t.pass(talk::request_timeout);
  EXPECT_EQ(t.client_over, errc::reply_overdue);
}

TEST(conversations, carry_notices_between_answers) {
  talk t{2};
  const notice n{notice_kind::shutting_down, errc::shutting_down, 0, "bye"};
  t.ask(renew{1});
  t.notify(n);
  t.settle();
  EXPECT_EQ(t.notices, std::vector{n});
  EXPECT_EQ(t.answers.size(), 1U);
}

TEST(conversations, tell_the_client_why_the_server_hung_up) {
  talk t{1};
  t.to_server.push_back(test::hex("00 00 08 00 01 00 00 00"));
  t.settle();
  EXPECT_EQ(t.server_over, errc::malformed_message);
  EXPECT_EQ(t.client_over, errc::malformed_message);
}

TEST(conversations, answer_each_request_once_in_any_interleaving) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    talk t{1 + seed % 8, {}, seed};
    for (int i = 0; i < 3000; ++i) {
      // Time passes in small steps only: what is slow here is not lost.
      t.step();
      if (i % 20 == 0) {
        t.settle();
      }
    }
    t.settle();
    ASSERT_FALSE(t.client_over) << t.client_over.message();
    ASSERT_FALSE(t.server_over) << t.server_over.message();
    ASSERT_EQ(t.answers.size(), t.requests_asked());
  }
}

TEST(conversations, hold_their_invariants_over_a_wire_that_garbles_repeats_and_loses) {
  std::set<std::string> ends;
  for (std::uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(seed);
    faults f;
    (seed % 3 == 0 ? f.garble : seed % 3 == 1 ? f.repeat : f.lose) = 2 + seed % 40;
    if (seed % 7 == 0) {
      f = {20, 20, 20};
    }
    talk t{1 + seed % 8, f, seed};
    for (int i = 0; i < 1000; ++i) {
      t.step();
      ASSERT_FALSE(testing::Test::HasFailure());
    }
    // Whatever happened, nobody waits for ever.
    t.settle();
    for (int i = 0; i < 61; ++i) {
      t.pass(1s);
    }
    t.settle();
    ASSERT_TRUE(t.client_over || t.answers.size() == t.requests_asked());
    ends.insert("client: " + t.client_over.message());
    ends.insert("server: " + t.server_over.message());
  }
  // The faults were such that every way to end was taken.
  for (const auto why : {errc::malformed_message, errc::unexpected_message, errc::reply_overdue}) {
    EXPECT_TRUE(ends.contains("client: " + make_error_code(why).message())) << name_of(why);
  }
  for (const auto why :
       {errc::malformed_message, errc::unexpected_message, errc::too_many_requests, errc::peer_silent}) {
    EXPECT_TRUE(ends.contains("server: " + make_error_code(why).message())) << name_of(why);
  }
}

TEST(conversations, survive_a_peer_that_says_anything) {
  const auto examples = test::examples();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    talk t{1 + seed % 4, {}, seed};
    for (int i = 0; i < 300; ++i) {
      auto m = examples.at(t.d.below(examples.size())).m;
      m.request_id = static_cast<std::uint32_t>(t.d.below(6));
      auto b = t.d.one_in(50) ? t.d.some(t.d.below(600)) : encode(m);
      (t.d.one_in(2) ? t.to_server : t.to_client).push_back(std::move(b));
      t.step();
      ASSERT_FALSE(testing::Test::HasFailure());
    }
  }
}

}  // namespace
}  // namespace gpurdma::protocol
