#include "tests/integration/support/remote.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/integration/support/process.hpp"

namespace gpurdma::test {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string content(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream{file}.rdbuf();
  return text.str();
}

}  // namespace

std::filesystem::path shared(const std::string& name) { return std::filesystem::path{variable("LAB_SHARED")} / name; }

std::string peer_address() { return variable("LAB_PEER"); }
std::string peer_address6() { return variable("LAB_PEER6"); }

std::string remote_server::log() const { return content(shared("server.log")); }

bool remote_server::wait_for(const std::string& text, std::size_t from) const {
  return eventually([&] { return log().find(text, from) != std::string::npos; });
}

std::string remote_server::resources() const {
  std::filesystem::remove(shared("resources"));
  EXPECT_TRUE(eventually([] { return std::filesystem::exists(shared("resources")); })) << "host a does not answer";
  return content(shared("resources"));
}

bool remote_server::resources_return_to(const std::string& expected) const {
  std::string last;
  const bool same = eventually([&] { return (last = resources()) == expected; });
  EXPECT_EQ(last, expected);
  return same;
}

void remote_server::signal(const std::string& name) const { std::ofstream{shared("signal")} << name; }

std::optional<int> remote_server::exit_status() const {
  return eventually([] { return std::filesystem::exists(shared("status")); })
             ? std::optional{std::stoi(content(shared("status")))}
             : std::nullopt;
}

}  // namespace gpurdma::test
