#include "daemon/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/unit/files.hpp"

namespace gpurdma::daemon {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

/// A configuration of three lines that has all that is needed.
const std::string least =
    "listen: [\"0.0.0.0:7471\"]\n"
    "security: { open: true }\n"
    "buffers: [{ name: demo, memory: host, size: 4KiB, fill: \"R\" }]\n";

/// The problems of a text, one each; none where it is good.
std::vector<std::string> problems_of(const std::string& text) {
  try {
    static_cast<void>(parse_config(text, "t"));
    return {};
  } catch (const config_error& e) {
    std::vector<std::string> lines;
    std::istringstream all{e.what()};
    for (std::string line; std::getline(all, line);) {
      lines.push_back(line);
    }
    return lines;
  }
}

/// A text, and what its only problem begins with.
struct bad {
  std::string text;
  std::string problem;
};

void expect_one_problem_each(const std::vector<bad>& all) {
  for (const auto& [text, problem] : all) {
    EXPECT_THAT(problems_of(text), ElementsAre(StartsWith(problem))) << text;
  }
}

/// The same for lines that follow the three of `least`.
void expect_one_problem_each_after_least(std::vector<bad> all) {
  for (auto& [text, problem] : all) {
    text = least + text + "\n";
  }
  expect_one_problem_each(all);
}

/// The same for the one buffer of a file, whose first character is at 4:5.
void expect_one_problem_each_of_a_buffer(std::vector<bad> all) {
  for (auto& [text, problem] : all) {
    text = "listen: [\"0.0.0.0:7471\"]\nsecurity: { open: true }\nbuffers:\n  - " + text + "\n";
  }
  expect_one_problem_each(all);
}

TEST(config, needs_little_and_has_defaults_for_the_rest) {
  const auto c = parse_config(least, "t");
  ASSERT_EQ(c.listen.size(), 1U);
  EXPECT_EQ(c.listen[0].to_string(), "0.0.0.0:7471");
  EXPECT_EQ(c.max_clients, 1024U);
  EXPECT_EQ(c.leases_per_client, 64U);
  EXPECT_EQ(c.lease_duration, 30s);
  EXPECT_EQ(c.lease_grace, 60s);
  EXPECT_TRUE(c.control.socket.empty());
  EXPECT_EQ(c.keepalive_interval, 10s);
  EXPECT_EQ(c.keepalive_timeout, 30s);
  EXPECT_EQ(c.keys, isolation::principal);
  EXPECT_EQ(c.log, log_level::info);
  ASSERT_EQ(c.buffers.size(), 1U);
  EXPECT_EQ(c.buffers[0].name, "demo");
  EXPECT_EQ(c.buffers[0].size, 4096U);
  EXPECT_EQ(c.buffers[0].source, memory::content_source{memory::byte_fill{std::byte{'R'}}});
}

TEST(config, takes_every_key) {
  const test::scratch_folder folder;
  const auto file = folder.write("weights", "12345");
  const auto c = parse_config(R"(
listen: ["192.0.2.1:80", "[2001:db8::7]:65535"]
limits: { clients: 1000000, leases_per_client: 1 }
lease: { duration: 100ms, grace: 0ms }
control: { socket: /run/elsewhere.sock, group: operators }
keepalive: { interval: 2min, timeout: 2h }
shutdown: { drain: 0ms }
security:
  open: true
  isolation: lease
buffers:
  - { name: a, memory: host, size: 1kB, fill: counting, replace: drain }
  - name: b
    memory: host
    source: )" + file.string() + R"(
  - { name: c, memory: host, source: ")" +
                                  file.string() + R"(", size: 5 }
log: { level: warning }
)",
                              "t");
  ASSERT_EQ(c.listen.size(), 2U);
  EXPECT_EQ(c.listen[0].to_string(), "192.0.2.1:80");
  EXPECT_EQ(c.listen[1].to_string(), "[2001:db8::7]:65535");
  EXPECT_EQ(c.max_clients, 1'000'000U);
  EXPECT_EQ(c.lease_grace, 0s);
  EXPECT_EQ(c.control.socket, "/run/elsewhere.sock");
  EXPECT_EQ(c.control.group, "operators");
  EXPECT_EQ(c.buffers.at(0).replace, replacement::drain);
  EXPECT_EQ(c.buffers.at(1).replace, replacement::keep);
  EXPECT_EQ(c.leases_per_client, 1U);
  EXPECT_EQ(c.lease_duration, 100ms);
  EXPECT_EQ(c.keepalive_interval, 2min);
  EXPECT_EQ(c.keepalive_timeout, 2h);
  EXPECT_EQ(c.drain_timeout, 0ms);
  EXPECT_EQ(c.keys, isolation::lease);
  EXPECT_EQ(c.log, log_level::warning);
  ASSERT_EQ(c.buffers.size(), 3U);
  EXPECT_EQ(c.buffers[0].size, 1'000U);
  EXPECT_EQ(c.buffers[0].source, memory::content_source{memory::counting_fill{}});
  for (const auto i : {1U, 2U}) {
    EXPECT_EQ(c.buffers[i].size, 5U);
    EXPECT_EQ(c.buffers[i].source, memory::content_source{memory::file_source{file}});
  }
}

TEST(config, takes_every_choice) {
  const std::pair<const char*, log_level> levels[] = {{"debug", log_level::debug},
                                                      {"info", log_level::info},
                                                      {"warning", log_level::warning},
                                                      {"error", log_level::error}};
  for (const auto& [word, level] : levels) {
    EXPECT_EQ(parse_config(least + "log: { level: " + word + " }\n", "t").log, level);
  }
}

TEST(config, takes_addresses_with_and_without_a_port) {
  const std::pair<const char*, const char*> addresses[] = {
      {"192.0.2.1", "192.0.2.1:7471"}, {"192.0.2.1:1", "192.0.2.1:1"}, {"[::]", "[::]:7471"}, {"[::1]:80", "[::1]:80"}};
  for (const auto& [written, meant] : addresses) {
    const auto c =
        parse_config("listen: [\"" + std::string{written} + "\"]\n" + least.substr(least.find('\n') + 1), "t");
    ASSERT_EQ(c.listen.size(), 1U);
    EXPECT_EQ(c.listen[0].to_string(), meant);
  }
}

TEST(config, refuses_what_is_no_address) {
  for (const std::string text : {"",
                                 "*",
                                 "*:7471",
                                 "localhost",
                                 "node-1:7471",
                                 "7471",
                                 ":7471",
                                 "192.0.2.1:",
                                 "192.0.2",
                                 "192.0.2.1:0",
                                 "192.0.2.1:65536",
                                 "192.0.2.1:-1",
                                 "192.0.2.1:x",
                                 "192.0.2.1:80:81",
                                 "192.0.2.1/24",
                                 "::1",
                                 "[::1",
                                 "[::1]7471",
                                 "[::1]x7471",
                                 "[::1]:",
                                 "[]:7471",
                                 "[x]"}) {
    EXPECT_THAT(problems_of("listen:\n  - \"" + text + "\"\n" + least.substr(least.find('\n') + 1)),
                ElementsAre(StartsWith("t:2:5: '" + text + "' is no address to listen on; write an IP address")));
  }
}

TEST(config, says_where_the_structure_is_wrong) {
  expect_one_problem_each({
      {"- a\n", "t:1:1: the configuration must be a map of keys and values"},
      {"nonsense\n", "t:1:1: the configuration must be a map of keys and values"},
      {"listen: 0.0.0.0\n", "t:1:9: listen must be a list"},
      {"listen:\n", "t:2:1: listen must be a list"},
      {"listen: [[a]]\n", "t:1:10: an address of listen must be a text"},
      {"security: true\n", "t:1:11: security must be a map of keys and values"},
      {"buffers: { name: a }\n", "t:1:10: buffers must be a list"},
      {"buffers: [a]\n", "t:1:11: a buffer must be a map of keys and values"},
  });
  expect_one_problem_each_after_least({
      {"limits: 5", "t:4:9: limits must be a map of keys and values"},
      {"lease: 30s", "t:4:8: lease must be a map of keys and values"},
      {"keepalive: []", "t:4:12: keepalive must be a map of keys and values"},
      {"shutdown: now", "t:4:11: shutdown must be a map of keys and values"},
      {"log: debug", "t:4:6: log must be a map of keys and values"},
  });
}

TEST(config, names_the_keys_that_it_knows_beside_one_that_it_does_not) {
  expect_one_problem_each_after_least({
      {"limit: {}", "t:4:1: unknown key 'limit' in the configuration; known are: listen, limits, lease, keepalive"},
      {"[a]: {}", "t:4:1: unknown key '' in the configuration; known are: listen"},
      {"limits: { client: 5 }", "t:4:11: unknown key 'client' in limits; known are: clients, leases_per_client"},
      {"lease: { length: 5s }", "t:4:10: unknown key 'length' in lease; known are: duration"},
      {"keepalive:\n  intervall: 5s", "t:5:3: unknown key 'intervall' in keepalive; known are: interval, timeout"},
      {"shutdown: { drains: 5s }", "t:4:13: unknown key 'drains' in shutdown; known are: drain"},
      {"log: { Level: info }", "t:4:8: unknown key 'Level' in log; known are: level"},
  });
  expect_one_problem_each({{"security: { opens: true }", "t:1:13: unknown key 'opens' in security; known are: open"}});
  expect_one_problem_each_of_a_buffer(
      {{"{ name: a, colour: red }", "t:4:16: unknown key 'colour' in a buffer; known are: name, memory"}});
}

TEST(config, refuses_a_key_that_stands_twice) {
  expect_one_problem_each_after_least({
      {"listen: [\"0.0.0.0:1\"]", "t:4:1: key 'listen' stands twice in the configuration; remove one"},
      {"limits: { clients: 5, clients: 5 }", "t:4:23: key 'clients' stands twice in limits; remove one"},
  });
  expect_one_problem_each_of_a_buffer(
      {{"{ name: a, memory: host, name: b, size: 1, fill: x }", "t:4:30: key 'name' stands twice in a buffer"}});
}

TEST(config, wants_whole_numbers_within_their_range) {
  for (const std::string value :
       {"many", "0", "-1", "1.5", "1e3", "0x10", "1000001", "4294967297", "1 000", "[1]", "~", "\"\"", "{}"}) {
    EXPECT_THAT(problems_of(least + "limits: { clients: " + value + " }\n"),
                ElementsAre("t:4:20: clients must be a whole number from 1 to 1000000"))
        << value;
  }
  expect_one_problem_each_after_least(
      {{"limits: { leases_per_client: 65537 }", "t:4:30: leases_per_client must be a whole number from 1 to 65536"}});
}

TEST(config, wants_durations_with_their_unit_and_within_their_range) {
  for (const std::string value : {"30", "30 s", "-5s", "1.5s", "5sec", "5S", "s", "forever", "[5s]", "~", "1000000001h",
                                  "99999999999999999999s"}) {
    EXPECT_THAT(problems_of(least + "lease: { duration: " + value + " }\n"),
                ElementsAre("t:4:20: duration must be a duration with its unit, such as 500ms, 30s, 5min or 1h"))
        << value;
  }
  expect_one_problem_each_after_least({
      {"lease: { duration: 99ms }", "t:4:20: duration must be from 100ms to 86400s"},
      {"lease: { duration: 25h }", "t:4:20: duration must be from 100ms to 86400s"},
      {"keepalive: { interval: 99ms }", "t:4:24: interval must be from 100ms to 3600s"},
      {"keepalive: { timeout: 7201s }", "t:4:23: timeout must be from 200ms to 7200s"},
      {"shutdown: { drain: 61min }", "t:4:20: drain must be from 0s to 3600s"},
  });
}

TEST(config, wants_a_keepalive_timeout_beyond_the_interval) {
  expect_one_problem_each_after_least({
      {"keepalive: { interval: 5s, timeout: 5s }", "t:4:12: keepalive: timeout must be longer than interval"},
      {"keepalive: { interval: 30s }", "t:4:12: keepalive: timeout must be longer than interval"},
      {"keepalive: { timeout: 10s }", "t:4:12: keepalive: timeout must be longer than interval"},
  });
}

TEST(config, names_the_choices) {
  expect_one_problem_each_after_least({
      {"log: { level: loud }", "t:4:15: level must be one of: debug, info, warning, error"},
      {"log: { level: [info] }", "t:4:15: level must be one of: debug, info, warning, error"},
      {"log: { level: INFO }", "t:4:15: level must be one of: debug, info, warning, error"},
  });
  expect_one_problem_each({{"security: { isolation: none }", "t:1:24: isolation must be one of: principal, lease"},
                           {"security: { isolation: }", "t:1:24: isolation must be one of: principal, lease"}});
  expect_one_problem_each_of_a_buffer({{"{ name: a, memory: disk }", "t:4:24: memory must be one of: host"}});
}

TEST(config, takes_only_true_and_false_for_a_switch) {
  for (const std::string value : {"yes", "on", "1", "True", "\"true\"", "'true'", "~", "[true]"}) {
    EXPECT_THAT(problems_of("security: { open: " + value + " }\n"), ElementsAre("t:1:19: open must be true or false"))
        << value;
  }
}

TEST(config, must_be_told_that_it_is_open) {
  const auto without = least.substr(0, least.find("security")) + least.substr(least.find("buffers"));
  for (const std::string security :
       {"", "security: { open: false }\n", "security: {}\n", "security: { isolation: lease }\n"}) {
    EXPECT_THAT(problems_of(without + security), ElementsAre(StartsWith("t: refused: whoever reaches this server")))
        << security;
  }
}

TEST(config, needs_something_to_do) {
  const auto from = [](std::string_view key) { return least.substr(least.find(key)); };
  expect_one_problem_each({
      {from("security"), "t: nothing to listen on; write listen: [\"0.0.0.0:7471\"]"},
      {"listen: []\n" + from("security"), "t: nothing to listen on; write listen: [\"0.0.0.0:7471\"]"},
      {least.substr(0, least.find("buffers")), "t: no buffers to serve"},
      {least.substr(0, least.find("buffers")) + "buffers: []\n", "t: no buffers to serve"},
      {"{}", "t: nothing to listen on"},
  });
}

TEST(config, refuses_the_same_thing_twice) {
  expect_one_problem_each({
      {"listen: [\"192.0.2.1\", \"192.0.2.1:7471\"]", "t:1:23: '192.0.2.1:7471' stands twice in listen; remove one"},
      {"listen: [\"[::1]\", \"[0:0:0:0:0:0:0:1]\"]", "t:1:19: '[0:0:0:0:0:0:0:1]' stands twice in listen"},
  });
  expect_one_problem_each_of_a_buffer(
      {{"{ name: a, memory: host, size: 1, fill: x }\n"
        "  - { name: b, memory: host, size: 1, fill: x }\n"
        "  - { name: a, memory: host, size: 2, fill: y }",
        "t:6:5: there is already a buffer 'a'"}});
}

TEST(config, refuses_what_is_no_name) {
  const auto too_long = std::string(65, 'a');
  for (const std::string& name :
       {std::string{"\"\""}, std::string{"a/b"}, std::string{".a"}, std::string{"-a"}, std::string{"\"a b\""},
        std::string{"\"a\\n\""}, std::string{"\"a\\0\""}, std::string{"\xC3\xA9"}, too_long}) {
    EXPECT_THAT(problems_of("buffers:\n  - { name: " + name + ", memory: host, size: 1, fill: x }"),
                ElementsAre(AllOf(StartsWith("t:2:13: '"), HasSubstr("is no name for a buffer: use 1 to 64 of the"))));
  }
  expect_one_problem_each({{"buffers: [{ name: [a] }]", "t:1:19: name must be a text"}});
  EXPECT_THAT(problems_of("buffers: [{ name: \"\\e[2J\\n\" }]"), ElementsAre(StartsWith("t:1:19: '?[2J?' is no name")));
}

TEST(config, wants_a_buffer_complete_and_without_contradiction) {
  expect_one_problem_each_of_a_buffer({
      {"{ memory: host, size: 1, fill: x }", "t:4:5: a buffer needs a name"},
      {"{ name: a, size: 1, fill: x }", "t:4:5: a buffer needs memory: host or cuda"},
      {"{ name: a, memory: host, size: 1 }", "t:4:5: a buffer needs its content: fill or source"},
      {"{ name: a, memory: host, fill: x }", "t:4:5: a buffer with fill needs a size"},
      {"{ name: a, memory: host, size: 1, fill: x, source: /etc/passwd }",
       "t:4:5: a buffer has either fill or source, not both"},
      {"{ name: a, memory: host, size: 1, fill: xy }",
       "t:4:45: fill must be one character, such as \"R\", or counting"},
      {"{ name: a, memory: host, size: 1, fill: \"\" }", "t:4:45: fill must be one character"},
      {"{ name: a, memory: host, size: 1, fill: [x] }", "t:4:45: fill must be a text"},
      {"{ name: a, memory: host, source: [x] }", "t:4:38: source must be a text"},
      {"{ name: a, memory: host, source: \"/etc\\0x\" }", "t:4:38: source holds a zero byte, which no path has"},
  });
  EXPECT_THAT(problems_of("buffers: [{}]"),
              ElementsAre("t:1:11: a buffer needs a name", "t:1:11: a buffer needs memory: host or cuda",
                          "t:1:11: a buffer needs its content: fill or source"));
}

// With the one GPU of tests/fake_cuda.
TEST(config, names_the_gpu_of_a_buffer) {
  const auto of = [](const std::string& fields) {
    const auto lists = least.substr(0, least.find("buffers"));
    return parse_config(lists + "buffers: [{ name: g, memory: cuda, size: 1, fill: x" + fields + " }]\n", "t")
        .buffers.back();
  };
  EXPECT_EQ(of("").gpu, "0");
  EXPECT_FALSE(of("").allow_staging);
  EXPECT_EQ(of(", gpu: 0").gpu, "0");
  EXPECT_EQ(of(", gpu: \"0000:00:00.0\", allow_staging: true").gpu, "0000:00:00.0");
  EXPECT_TRUE(of(", gpu: GPU-00000000, allow_staging: true").allow_staging);
  EXPECT_EQ(parse_config(least, "t").buffers.front().gpu, std::nullopt);
  expect_one_problem_each_of_a_buffer({
      {"{ name: a, memory: cuda, gpu: 9, size: 1, fill: x }",
       "t:4:5: gpu: there is no GPU \"9\"; this machine has 0: "},
      {"{ name: a, memory: host, gpu: 0, size: 1, fill: x }", "t:4:5: gpu and allow_staging are for memory: cuda"},
      {"{ name: a, memory: host, allow_staging: true, size: 1, fill: x }",
       "t:4:5: gpu and allow_staging are for memory: cuda"},
      {"{ name: a, memory: cuda, allow_staging: yes please, size: 1, fill: x }", "t:4:45: allow_staging must be "},
      {"{ name: a, memory: cuda, gpu: [0], size: 1, fill: x }", "t:4:35: gpu must be a text"},
  });
}

TEST(config, wants_sizes_above_0) {
  for (const std::string size :
       {"0", "0GiB", "-1", "4 KiB", "4K", "1.5GiB", "big", "\"\"", "[4]", "~", "16777216TiB"}) {
    EXPECT_THAT(problems_of("buffers: [{ name: a, memory: host, size: " + size + ", fill: x }]"),
                ElementsAre("t:1:42: size must be a size above 0, such as 4096, 4KiB, 4kB or 1GiB"))
        << size;
  }
}

TEST(config, opens_each_source_and_compares_its_size) {
  const test::scratch_folder folder;
  const auto file = folder.write("five", "12345").string();
  const auto empty = folder.write("empty", "").string();
  const auto fifo = (folder / "fifo").string();
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto missing = (folder / "missing").string();
  const auto with_source = [](const std::string& path) { return "{ name: a, memory: host, source: " + path + " }"; };
  expect_one_problem_each_of_a_buffer({
      {with_source(missing), "t:4:5: source " + missing + " cannot be opened: No such file or directory"},
      {with_source(folder.path().string()), "t:4:5: source " + folder.path().string() + " is not a regular file"},
      {with_source(fifo), "t:4:5: source " + fifo + " is not a regular file"},
      {with_source(empty), "t:4:5: source " + empty + " is empty"},
      {with_source(file + ", size: 6"),
       "t:4:5: source " + file + " has 5 bytes, size says 6; leave size out to take the file's"},
  });
}

TEST(config, says_where_it_is_no_yaml) {
  // The column is the parser's choice.
  const bad all[] = {
      {"listen: [", "t:1:"},
      {"a: *b\n", "t:1:"},
      {std::string(10'000, '['), "t:1:"},
      {least + "a: b: c\n", "t:4:"},
      {least + "log:\n\tlevel: info\n", "t:5:"},
  };
  for (const auto& [text, place] : all) {
    EXPECT_THAT(problems_of(text), ElementsAre(AllOf(StartsWith(place), HasSubstr(": not YAML: ")))) << text;
  }
}

TEST(config, is_one_document) {
  for (const std::string& text : {std::string{}, std::string{"\n\n"}, std::string{"# nothing but this\n"},
                                  std::string{"---\n"}, "---\n" + least + "---\n" + least, std::string{","}}) {
    EXPECT_THAT(problems_of(text), ElementsAre("t: must hold one YAML document")) << text;
  }
  EXPECT_THAT(problems_of("---\n" + least + "...\n"), testing::IsEmpty());
}

TEST(config, lists_all_problems_in_the_order_of_the_file) {
  EXPECT_THAT(problems_of("listen: [nowhere]\n"
                          "limits: { clients: 0, leases: 1 }\n"
                          "securty: { open: true }\n"
                          "buffers:\n"
                          "  - { name: a/b, memory: disk, size: 0, fill: xy }\n"
                          "log: { level: loud }\n"),
              ElementsAre(StartsWith("t:1:10: 'nowhere' is no address"), StartsWith("t:2:20: clients must be"),
                          StartsWith("t:2:23: unknown key 'leases'"), StartsWith("t:3:1: unknown key 'securty'"),
                          StartsWith("t:5:13: 'a/b' is no name"), StartsWith("t:5:26: memory must be"),
                          StartsWith("t:5:38: size must be"), StartsWith("t:5:47: fill must be"),
                          StartsWith("t:6:15: level must be")));
}

TEST(config, never_ends_otherwise_than_good_or_with_problems) {
  std::mt19937 engine{7};
  const auto good = least + "limits: { clients: 5 }\nlease:\n  duration: 30s\nlog: &x { level: info }\n";
  for (int i = 0; i < 2'000; ++i) {
    auto text = good;
    for (auto changes = 1 + engine() % 4; changes > 0; --changes) {
      constexpr std::string_view characters =
          "[]{}:,-\"'#&*!|>%@`?~ \n\t\x01\x80\xFF"
          "09azAZ";
      const auto at = engine() % text.size();
      if (engine() % 3 == 0) {
        text.erase(at, 1 + engine() % 5);
      } else {
        text.insert(at, 1, characters[engine() % characters.size()]);
      }
    }
    for (const auto& problem : problems_of(text)) {
      ASSERT_FALSE(problem.empty());
    }
  }
}

std::string problem_of_file(const std::filesystem::path& file) {
  try {
    static_cast<void>(load_config(file));
    return {};
  } catch (const config_error& e) {
    return e.what();
  }
}

TEST(config, says_why_a_file_cannot_be_read) {
  const test::scratch_folder folder;
  EXPECT_EQ(problem_of_file(folder / "missing"), (folder / "missing").string() + ": does not exist");
  EXPECT_EQ(problem_of_file(folder.path()), folder.path().string() + ": cannot be read");
  EXPECT_EQ(problem_of_file(folder.write("empty", "")), (folder / "empty").string() + ": must hold one YAML document");

  const auto secret = folder.write("secret", least);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(secret, std::filesystem::perms::none);
  const test::ordinary_user user;
  EXPECT_EQ(problem_of_file(secret), secret.string() + ": cannot be read");
}

TEST(config, names_the_file_in_its_problems) {
  const test::scratch_folder folder;
  const auto file = folder.write("bad.yaml", "nonsense: 1\n");
  EXPECT_THAT(problem_of_file(file), StartsWith(file.string() + ":1:1: unknown key 'nonsense'"));
}

TEST(config, has_examples_that_load) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator{GPURDMA_SOURCE_DIR "/config"}) {
    if (entry.path().filename().string().starts_with("example-")) {
      EXPECT_EQ(problem_of_file(entry.path()), "");
      ++count;
    }
  }
  EXPECT_GT(count, 0);
}

TEST(config, that_is_installed_serves_nothing_until_somebody_writes_it) {
  EXPECT_NE(problem_of_file(GPURDMA_SOURCE_DIR "/config/gpurdma-server.yaml").find("must hold one YAML document"),
            std::string::npos);
}

}  // namespace
}  // namespace gpurdma::daemon
