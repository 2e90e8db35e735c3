// Writes the hand-made inputs of codec, handshake and conversations into the folder that it is given, one folder each.
// Those of config are texts and stand in the corpus as they are.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "protocol/handshake.hpp"
#include "tests/fuzz/script.hpp"
#include "tests/unit/protocol/support.hpp"

namespace gpurdma {
namespace {

using fuzz::bytes;
using fuzz::step;

class folder {
 public:
  explicit folder(std::filesystem::path path) : path_{std::move(path)} { std::filesystem::create_directories(path_); }
  void add(std::string_view name, const bytes& content) const {
    std::ofstream out{path_ / name, std::ios::binary};
    for (const auto b : content) {
      out.put(std::to_integer<char>(b));
    }
  }

 private:
  std::filesystem::path path_;
};

void write_codec(const folder& to) {
  for (const auto& example : protocol::test::examples()) {
    const auto encoded = protocol::encode(example.m);
    // The first byte is the type.
    to.add("type-" + std::to_string(std::to_integer<int>(encoded.front())), encoded);
  }
  protocol::listing full;
  for (const char c : {'a', 'b', 'c', 'd', 'e'}) {
    full.entries.push_back({std::string(protocol::max_name_size, c), 1, 1, c == 'c'});
  }
  to.add("listing-full", encode(protocol::message{1, full}));
  to.add("checksums-most", encode(protocol::message{1, protocol::checksums{0, std::vector<std::uint32_t>(120, 7)}}));
  to.add("error-longest", encode(protocol::message{1, protocol::error{protocol::errc::unknown_lease,
                                                                      std::string(protocol::max_sentence_size, 'x')}}));
  to.add("error-unknown-code", protocol::test::hex("0b 00 0e 00 07 00 00 00 ff 7f 02 00 6e 6f"));
}

void write_handshake(const folder& to) {
  const auto hello = encode(protocol::hello{});
  to.add("hello", hello);
  to.add("hello-padded", protocol::test::padded(hello, protocol::max_hello_size));
  to.add("hello-versions", encode(protocol::hello{.lowest_version = 1, .highest_version = 9}));
  to.add("welcome", encode(protocol::welcome{.incarnation = 7, .credits = 4, .silence_limit_ms = 30'000}));
  to.add("refusal", encode(protocol::refusal{.code = protocol::errc::too_many_clients, .sentence = "try later"}));
  to.add("refusal-longest", encode(protocol::refusal{.sentence = std::string(protocol::max_refusal_size, 'x')}));
}

/// A script of `credits` and then `steps`, each with what it takes.
bytes written(std::uint8_t credits, std::initializer_list<std::pair<step, std::vector<std::uint8_t>>> steps) {
  bytes out{static_cast<std::byte>(credits - 1)};
  for (const auto& [what, takes] : steps) {
    out.push_back(static_cast<std::byte>(what));
    for (const auto number : takes) {
      out.push_back(static_cast<std::byte>(number));
    }
  }
  return out;
}

void write_conversations(const folder& to) {
  // ask takes the kind of request (open, get_checksums, renew, release, list) and its fields; serve which of the
  // requests at work is answered, whether by an error (0) or not, and the answer's fields.
  to.add("one-of-each", written(1, {{step::ask, {0, 3, 0, 9}},
                                    {step::to_server, {}},
                                    {step::serve, {0, 1, 5, 9}},
                                    {step::to_client, {}},
                                    {step::ask, {1, 5, 0, 119}},
                                    {step::to_server, {}},
                                    {step::serve, {0, 1}},
                                    {step::to_client, {}},
                                    {step::ask, {2, 5}},
                                    {step::to_server, {}},
                                    {step::serve, {0, 1}},
                                    {step::to_client, {}},
                                    {step::ask, {3, 5, 9}},
                                    {step::to_server, {}},
                                    {step::serve, {0, 1}},
                                    {step::to_client, {}},
                                    {step::ask, {4, 0}},
                                    {step::to_server, {}},
                                    {step::serve, {0, 1, 2, 0, 1, 0}},
                                    {step::to_client, {}}}));
  to.add("answers-out-of-order", written(3, {{step::ask, {2, 1}},
                                             {step::ask, {2, 2}},
                                             {step::ask, {2, 3}},
                                             {step::ask, {2, 4}},
                                             {step::to_server, {}},
                                             {step::to_server, {}},
                                             {step::to_server, {}},
                                             {step::serve, {2, 1}},
                                             {step::serve, {1, 0}},
                                             {step::serve, {0, 1}},
                                             {step::to_client, {}},
                                             {step::to_client, {}},
                                             {step::to_client, {}},
                                             {step::to_server, {}},
                                             {step::serve, {0, 1}},
                                             {step::to_client, {}}}));
  to.add("pings-and-silence", written(1, {{step::pass, {100}},
                                          {step::to_client, {}},
                                          {step::to_server, {}},
                                          {step::pass, {100}},
                                          {step::pass, {200}}}));
  to.add("notice-and-overdue", written(2, {{step::notify, {0, 0}},
                                           {step::to_client, {}},
                                           {step::ask, {2, 1}},
                                           {step::lose, {0, 0}},
                                           {step::pass, {200}},
                                           {step::ask, {2, 1}}}));
  to.add("repeated-request", written(2, {{step::ask, {2, 1}},
                                         {step::repeat, {0, 0}},
                                         {step::to_server, {}},
                                         {step::to_server, {}},
                                         {step::to_client, {}},
                                         {step::ask, {2, 1}}}));
  to.add("garbled-and-cut", written(2, {{step::ask, {2, 1}},
                                        {step::to_server, {}},
                                        {step::serve, {0, 1}},
                                        {step::garble, {1, 0, 8, 1}},
                                        {step::to_client, {}},
                                        {step::inject_message, {0, 1, 2}},
                                        {step::cut, {0, 0, 7}},
                                        {step::to_server, {}},
                                        {step::inject_bytes, {1, 8, 13, 0, 8, 0, 0, 0, 0, 0}}}));
}

}  // namespace
}  // namespace gpurdma

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: fuzz_seeds FOLDER\n", stderr);
    return 2;
  }
  const std::filesystem::path to{argv[1]};
  gpurdma::write_codec(gpurdma::folder{to / "codec"});
  gpurdma::write_handshake(gpurdma::folder{to / "handshake"});
  gpurdma::write_conversations(gpurdma::folder{to / "conversations"});
}
