#include "daemon/event.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/event_limit.hpp"

namespace gpurdma::daemon {
namespace {

using testing::EndsWith;
using testing::MatchesRegex;

/// What the event writes to the log.
std::string logged(event_id id, std::initializer_list<field> fields) {
  testing::internal::CaptureStderr();
  emit(id, fields);
  return testing::internal::GetCapturedStderr();
}

/// The part of the line that follows the time.
std::string after_time(const std::string& line) { return line.substr(line.find(' ') + 1); }

class event : public testing::Test {
 protected:
  event() { set_log_level(log_level::debug); }
};

TEST_F(event, is_one_line_with_time_level_name_sentence_and_fields) {
  const auto line = logged(event_id::client_lost, {{"client", 7}, {"peer", "192.0.2.1:4711"}});
  EXPECT_THAT(line,
              MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}[+-][0-9]{2}:[0-9]{2} "
                           "warning client_lost: [a-z ]+ client=7 peer=192\\.0\\.2\\.1:4711\n"));
}

TEST_F(event, has_its_own_stable_name) {
  const std::pair<event_id, std::string_view> names[] = {
      {event_id::server_starting, "server_starting"},
      {event_id::buffer_loaded, "buffer_loaded"},
      {event_id::buffer_registered, "buffer_registered"},
      {event_id::buffer_staged, "buffer_staged"},
      {event_id::buffer_verified, "buffer_verified"},
      {event_id::buffer_damaged, "buffer_damaged"},
      {event_id::buffer_failed, "buffer_failed"},
      {event_id::version_retired, "version_retired"},
      {event_id::version_freed, "version_freed"},
      {event_id::server_ready, "server_ready"},
      {event_id::server_stopping, "server_stopping"},
      {event_id::server_stopped, "server_stopped"},
      {event_id::start_failed, "start_failed"},
      {event_id::reload_started, "reload_started"},
      {event_id::reload_finished, "reload_finished"},
      {event_id::reload_failed, "reload_failed"},
      {event_id::restart_needed, "restart_needed"},
      {event_id::client_connected, "client_connected"},
      {event_id::client_refused, "client_refused"},
      {event_id::client_left, "client_left"},
      {event_id::client_lost, "client_lost"},
      {event_id::client_dropped, "client_dropped"},
      {event_id::lease_granted, "lease_granted"},
      {event_id::lease_ended, "lease_ended"},
      {event_id::request_refused, "request_refused"},
      {event_id::work_requests_lost, "work_requests_lost"},
      {event_id::device_event, "device_event"},
      {event_id::device_added, "device_added"},
      {event_id::device_lost, "device_lost"},
      {event_id::gpu_placed, "gpu_placed"},
      {event_id::gpu_is_far, "gpu_is_far"},
      {event_id::gpu_lost, "gpu_lost"},
      {event_id::control_command, "control_command"},
      {event_id::control_refused, "control_refused"},
      {event_id::self_check_failed, "self_check_failed"},
  };
  for (const auto& [id, name] : names) {
    EXPECT_EQ(name_of(id), name);
  }
}

TEST_F(event, of_one_peer_is_written_so_often_and_then_counted) {
  const auto refused = [](const char* peer) { return logged(event_id::client_refused, {{"peer", peer}}); };
  for (std::uint32_t i = 0; i < event_limit::burst; ++i) {
    EXPECT_THAT(refused(i % 2 == 0 ? "192.0.2.77:1" : "192.0.2.77:2"), EndsWith(i % 2 == 0 ? ":1\n" : ":2\n"));
  }
  EXPECT_EQ(refused("192.0.2.77:3"), "");
  EXPECT_NE(refused("192.0.2.78:3"), "") << "another peer has an allowance of its own";
  EXPECT_NE(logged(event_id::client_connected, {{"peer", "192.0.2.77:3"}}), "") << "this is no error";
}

TEST_F(event, is_written_from_its_level_on) {
  const std::pair<event_id, log_level> of_each_level[] = {{event_id::lease_granted, log_level::debug},
                                                          {event_id::server_ready, log_level::info},
                                                          {event_id::client_refused, log_level::warning},
                                                          {event_id::start_failed, log_level::error}};
  for (const auto threshold : {log_level::debug, log_level::info, log_level::warning, log_level::error}) {
    set_log_level(threshold);
    for (const auto& [id, level] : of_each_level) {
      EXPECT_EQ(logged(id, {}).empty(), level < threshold) << name_of(id);
    }
  }
}

TEST_F(event, shows_numbers_and_plain_words_as_they_are_and_quotes_the_rest) {
  const auto end_of = [](field f) { return logged(event_id::server_ready, {std::move(f)}); };
  EXPECT_THAT(end_of({"n", 18446744073709551615U}), EndsWith(" n=18446744073709551615\n"));
  EXPECT_THAT(end_of({"n", -1}), EndsWith(" n=-1\n"));
  EXPECT_THAT(end_of({"f", "[2001:db8::7]:7471"}), EndsWith(" f=[2001:db8::7]:7471\n"));
  EXPECT_THAT(end_of({"f", ""}), EndsWith(" f=\"\"\n"));
  EXPECT_THAT(end_of({"f", "two words"}), EndsWith(" f=\"two words\"\n"));
  EXPECT_THAT(end_of({"f", "a=b"}), EndsWith(" f=\"a=b\"\n"));
  EXPECT_THAT(end_of({"f", "a\"b\\"}), EndsWith(" f=\"a\\\"b\\\\\"\n"));
  EXPECT_THAT(end_of({"f", "gr\xC3\xBC\xC3\x9F"}), EndsWith(" f=\"gr\xC3\xBC\xC3\x9F\"\n"));
  EXPECT_THAT(end_of({"f", "%v {} %n"}), EndsWith(" f=\"%v {} %n\"\n"));
  EXPECT_THAT(end_of({"f", "\r\n\t\x1b\x7f"}), EndsWith(" f=\"?????\"\n"));
  EXPECT_THAT(end_of({"f", std::string_view{"a\0b", 3}}), EndsWith(" f=\"a?b\"\n"));
}

/// The fields of a line's end, as somebody would read them who knows the quoting; nothing where it is malformed.
std::optional<std::vector<std::pair<std::string, std::string>>> read_fields(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> fields;
  while (!text.empty()) {
    const auto equals = text.find('=');
    if (text.front() != ' ' || equals == std::string_view::npos) {
      return std::nullopt;
    }
    auto& [name, value] = fields.emplace_back(text.substr(1, equals - 1), "");
    text.remove_prefix(equals + 1);
    if (!text.starts_with('"')) {
      value = text.substr(0, text.find(' '));
      text.remove_prefix(value.size());
      continue;
    }
    std::size_t at = 1;
    for (; at < text.size() && text[at] != '"'; ++at) {
      at += text[at] == '\\' ? 1U : 0U;
      value += at < text.size() ? text[at] : '\0';
    }
    if (at >= text.size()) {
      return std::nullopt;
    }
    text.remove_prefix(at + 1);
  }
  return fields;
}

TEST_F(event, cannot_be_made_to_show_another_line_or_field) {
  std::mt19937 engine{3};
  const auto start = after_time(logged(event_id::client_left, {}));
  const auto without_newline = start.substr(0, start.size() - 1);
  for (int i = 0; i < 2'000; ++i) {
    std::string value;
    std::string shown;
    for (auto size = engine() % 8; size > 0; --size) {
      constexpr std::string_view characters{"\"\\ ='\n\r\t\x1b\x7f\0{}%a\xC3\xBC", 17};
      const auto c = characters[engine() % characters.size()];
      value += c;
      shown += (c >= 0 && c < ' ') || c == '\x7f' ? '?' : c;
    }
    const auto line = after_time(logged(event_id::client_left, {{"first", value}, {"second", value}, {"last", 1}}));
    ASSERT_EQ(line.find('\n'), line.size() - 1);
    ASSERT_TRUE(line.starts_with(without_newline));
    const auto fields = read_fields(std::string_view{line}.substr(without_newline.size(), line.size() - start.size()));
    ASSERT_TRUE(fields) << line;
    ASSERT_THAT(*fields, testing::ElementsAre(std::pair{"first", shown}, std::pair{"second", shown},
                                              std::pair{"last", std::string{"1"}}))
        << line;
  }
}

}  // namespace
}  // namespace gpurdma::daemon
