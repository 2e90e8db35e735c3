// Client and server against each other, over a wire that may do anything; the input is the script (script.hpp) of what
// happens.

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "protocol/client_conversation.hpp"
#include "protocol/codec.hpp"
#include "protocol/server_conversation.hpp"
#include "tests/fuzz/script.hpp"

namespace gpurdma::protocol {
namespace {

using namespace std::chrono_literals;
using fuzz::bytes;
using fuzz::require;
using fuzz::script;
using fuzz::step;

/// The position of T in `body`.
template <typename T>
const std::size_t index_of = body{T{}}.index();

bool is_request(const body& content) {
  return content.index() == index_of<open> || content.index() == index_of<get_checksums> ||
         content.index() == index_of<renew> || content.index() == index_of<release> ||
         content.index() == index_of<list>;
}

/// In `body` each request stands before its answer.
bool is_answer_to(const body& request, const body& answer) {
  return is_request(request) && (answer.index() == request.index() + 1 || answer.index() == index_of<error>);
}

class talk {
 public:
  explicit talk(script in)
      : in_{in},
        client_{{.credits = credits_, .request_timeout = request_timeout}},
        server_{{.credits = credits_, .ping_interval = ping_interval, .silence_limit = silence_limit}, now_} {}

  void run() {
    while (!in_.at_end()) {
      do_step(in_.next());
    }
    // Nobody waits for ever for a peer that has fallen silent.
    pass(request_timeout);
    require(client_over_ || answered_.size() == asked_.size(), "each request was answered, or the client gave up");
    pass(silence_limit);
    require(server_over_, "the server gives up a silent client");
  }

 private:
  static constexpr auto request_timeout = 20s;
  static constexpr auto ping_interval = 10s;
  static constexpr auto silence_limit = 30s;

  void do_step(step what) {
    switch (what) {
      case step::ask:
        return ask(some_request());
      case step::to_server:
        return deliver(to_server_, [&](const bytes& b) { server_does(server_.on_message(b, now_)); });
      case step::to_client:
        return deliver(to_client_, [&](const bytes& b) { client_does(client_.on_message(b, now_)); });
      case step::serve:
        return serve();
      case step::serve_other:
        return reply(some_id(), some_body());
      case step::notify:
        return server_does(server_.notify(some_notice()));
      case step::pass:
        return pass(in_.number() * 100ms);
      case step::garble:
        return on_the_wire([&](auto&, auto at) {
          if (!at->empty()) {
            at->at(in_.below(at->size())) ^= static_cast<std::byte>(in_.number());
          }
        });
      case step::cut:
        return on_the_wire([&](auto&, auto at) { at->resize(in_.number()); });
      case step::repeat:
        return on_the_wire([&](auto& wire, auto at) { wire.push_back(bytes{*at}); });
      case step::lose:
        return on_the_wire([&](auto& wire, auto at) { wire.erase(at); });
      case step::inject_message:
        return a_wire().push_back(encode(message{some_id(), some_body()}));
      case step::inject_bytes:
        return a_wire().push_back(in_.some(in_.number()));
      case step::end_of_steps:
        break;
    }
  }

  void ask(const body& request) {
    client_conversation::actions todo;
    const auto id = client_.request(request, now_, todo);
    require(id != 0, "a request has an id");
    if (!client_over_) {
      require(asked_.emplace(id, request).second, "each request has its own id");
    }
    client_does(todo);
  }

  template <typename Deliver>
  void deliver(std::deque<bytes>& wire, Deliver to) {
    if (!wire.empty()) {
      const auto first = std::move(wire.front());
      wire.pop_front();
      to(first);
    }
  }

  void serve() {
    if (!served_.empty()) {
      const auto [id, request] = *std::next(served_.begin(), static_cast<std::ptrdiff_t>(in_.below(served_.size())));
      reply(id, answer_to(request));
    }
  }

  void reply(std::uint32_t id, const body& answer) {
    const bool expected = served_.erase(id) != 0 && !server_over_;
    const auto todo = server_.reply(id, answer);
    require(todo.size() == (expected ? 1 : 0), "a request is answered once");
    if (expected) {
      require(said(todo.front()) == message{id, answer}, "the answer is sent as it was given");
    }
    server_does(todo);
  }

  void pass(std::chrono::milliseconds time) {
    now_ += time;
    const auto server_due = server_.next_deadline();
    const auto server_todo = server_.on_time(now_);
    require(server_todo.empty() == (now_ < server_due), "the server acts at its deadline, not before");
    server_does(server_todo);
    const auto client_due = client_.next_deadline();
    const auto client_todo = client_.on_time(now_);
    require(client_todo.empty() == (now_ < client_due), "the client acts at its deadline, not before");
    client_does(client_todo);
    require(server_.next_deadline() > now_ && client_.next_deadline() > now_, "a deadline that stays is a busy loop");
  }

  std::deque<bytes>& a_wire() { return in_.below(2) == 0 ? to_server_ : to_client_; }

  template <typename Fault>
  void on_the_wire(Fault fault) {
    auto& wire = a_wire();
    if (!wire.empty()) {
      fault(wire, wire.begin() + static_cast<std::ptrdiff_t>(in_.below(wire.size())));
    }
  }

  /// The message that an action sends.
  template <typename Action>
  message said(const Action& action) {
    const auto& sent = std::get<0>(action).bytes;
    const auto decoded = decode(sent);
    require(decoded.has_value(), "what is sent is well-formed");
    return *decoded;
  }

  void client_does(const client_conversation::actions& todo) {
    for (const auto& action : todo) {
      require(!client_over_, "a client that has hung up does nothing");
      if (const auto* const t = std::get_if<client_conversation::transmit>(&action)) {
        client_sends(t->bytes, said(action));
      } else if (const auto* const a = std::get_if<client_conversation::answered>(&action)) {
        require(sent_.contains(a->request_id), "an answer is that to a request");
        require(is_answer_to(asked_.at(a->request_id), a->answer), "the answer is of the request's type");
        require(answered_.insert(a->request_id).second, "a request is answered once");
      } else if (const auto* const h = std::get_if<client_conversation::hang_up>(&action)) {
        require(static_cast<bool>(h->reason), "there is a reason to hang up");
        client_over_ = true;
      }
    }
    require(sent_.size() - answered_.size() <= credits_, "the client keeps to its credits");
    require(!client_over_ || client_.next_deadline() == decltype(now_)::max(),
            "a client that has hung up waits for nothing");
  }

  void client_sends(const bytes& b, const message& m) {
    require(b.size() <= max_request_size, "a request is as short as the server wants it");
    if (!std::holds_alternative<pong>(m.content)) {
      const auto asked = asked_.find(m.request_id);
      require(asked != asked_.end() && asked->second == m.content, "the request is sent as it was made");
      require(sent_.empty() || *sent_.rbegin() < m.request_id, "requests are sent once and in their order");
      sent_.insert(m.request_id);
    }
    to_server_.push_back(b);
  }

  void server_does(const server_conversation::actions& todo) {
    for (const auto& action : todo) {
      require(!server_over_, "a server that has hung up does nothing");
      if (const auto* const t = std::get_if<server_conversation::transmit>(&action)) {
        static_cast<void>(said(action));
        require(t->bytes.size() <= max_reply_size, "a reply is as short as the client wants it");
        to_client_.push_back(t->bytes);
      } else if (const auto* const s = std::get_if<server_conversation::serve>(&action)) {
        require(s->request_id != 0 && is_request(s->request), "only requests are served");
        require(served_.emplace(s->request_id, s->request).second, "an id is served once at a time");
      } else {
        require(static_cast<bool>(std::get<server_conversation::hang_up>(action).reason),
                "there is a reason to hang up");
        server_over_ = true;
      }
    }
    require(served_.size() <= credits_, "the server keeps to the credits that it granted");
    require(!server_over_ || server_.next_deadline() == decltype(now_)::max(),
            "a server that has hung up waits for nothing");
  }

  std::uint32_t some_id() { return static_cast<std::uint32_t>(in_.below(8)); }
  std::string some_name() { return std::string(1, static_cast<char>('a' + in_.below(26))); }
  notice some_notice() {
    return {static_cast<notice_kind>(1 + in_.below(3)), errc::version_replaced, in_.number(), "there is a newer one"};
  }
  body some_request() {
    switch (in_.below(5)) {
      case 0:
        return open{some_name(), in_.number(), in_.number()};
      case 1:
        return get_checksums{in_.number(), in_.number(),
                             static_cast<std::uint32_t>(1 + in_.below(max_checksums_in_reply))};
      case 2:
        return renew{in_.number()};
      case 3:
        return release{in_.number(), in_.number()};
      default:
        return list{in_.below(2) == 0 ? std::string{} : some_name()};
    }
  }
  body answer_to(const body& request) {
    if (in_.below(4) == 0) {
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
      listing page;
      for (auto count = in_.below(max_buffers_in_listing + 1); count > 0; --count) {
        page.entries.push_back({.name = some_name()});  // not always in order
      }
      page.more = !page.entries.empty() && in_.below(2) == 0;
      return page;
    }
    return lease{.id = in_.number(), .length = in_.number()};
  }
  body some_body() {
    switch (in_.below(5)) {
      case 0:
        return some_request();
      case 1:
        return answer_to(some_request());
      case 2:
        return ping{};
      case 3:
        return pong{};
      default:
        return some_notice();
    }
  }

  script in_;
  std::size_t credits_ = 1 + in_.below(4);
  server_conversation::clock::time_point now_{};
  client_conversation client_;
  server_conversation server_;
  std::deque<bytes> to_server_;
  std::deque<bytes> to_client_;
  std::map<std::uint32_t, body> asked_;   ///< all that was requested
  std::set<std::uint32_t> sent_;          ///< of these, what a credit was there for
  std::set<std::uint32_t> answered_;      ///< of these, what has its answer
  std::map<std::uint32_t, body> served_;  ///< what the server is at work on
  bool client_over_ = false;
  bool server_over_ = false;
};

}  // namespace
}  // namespace gpurdma::protocol

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  gpurdma::protocol::talk{gpurdma::fuzz::script{gpurdma::fuzz::input(data, size)}}.run();
  return 0;
}
