#include "daemon/control_socket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <boost/json/serialize.hpp>
#include <chrono>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/files.hpp"

namespace gpurdma::daemon {
namespace {

using testing::HasSubstr;

class control_socket_test : public testing::Test {
 protected:
  control_socket_test() : path{folder / "c.sock"} { serve(); }

  void serve() {
    socket = std::make_unique<control_socket>(io, path, "", [](const auto& request, const auto& then) {
      auto answer = request;
      answer["heard"] = true;
      then(answer);
    });
  }

  /// What the server answers to `request` from another thread; "" where it hangs up.
  std::string ask(const std::string& request) {
    std::string heard;
    std::thread caller{[&] {
      const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockaddr_un at{};
      at.sun_family = AF_UNIX;
      path.string().copy(at.sun_path, sizeof at.sun_path - 1);
      EXPECT_EQ(connect(fd, std::bit_cast<sockaddr*>(&at), sizeof at), 0);
      EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
      char c = 0;
      while (recv(fd, &c, 1, 0) == 1) {
        heard += c;
      }
      close(fd);
      io.stop();
    }};
    io.restart();
    io.run();
    caller.join();
    return heard;
  }

  test::scratch_folder folder;
  std::filesystem::path path;
  boost::asio::io_context io;
  std::unique_ptr<control_socket> socket;
};

TEST_F(control_socket_test, answers_one_line_with_one_line) {
  EXPECT_EQ(ask("{\"command\":\"x\"}\n"), "{\"command\":\"x\",\"heard\":true}\n");
  EXPECT_EQ(ask("{}\nmore"), "{\"heard\":true}\n");
}

TEST_F(control_socket_test, is_for_its_user_and_group_alone) {
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0660U);
}

TEST_F(control_socket_test, refuses_what_is_no_object_or_too_long) {
  EXPECT_THAT(ask("hello\n"), HasSubstr("no JSON object"));
  EXPECT_THAT(ask("[1]\n"), HasSubstr("no JSON object"));
  EXPECT_THAT(ask("\n"), HasSubstr("no JSON object"));
  EXPECT_THAT(ask(std::string(5000, ' ')), HasSubstr("longer than 4096"));
  EXPECT_THAT(ask("{\"a\":" + std::string(2000, '[') + "\n"), HasSubstr("no JSON object"));
}

TEST_F(control_socket_test, removes_itself_and_lets_the_reactor_end) {
  socket->close();
  EXPECT_FALSE(std::filesystem::exists(path));
  io.run();
}

TEST_F(control_socket_test, replaces_what_a_crash_left_but_no_living_server_and_no_file) {
  EXPECT_THROW(serve(), std::system_error) << "this one lives";
  socket->close();
  const int left = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.string().copy(at.sun_path, sizeof at.sun_path - 1);
  ASSERT_EQ(bind(left, std::bit_cast<sockaddr*>(&at), sizeof at), 0);
  close(left);
  ASSERT_TRUE(std::filesystem::exists(path));
  serve();
  EXPECT_EQ(ask("{}\n"), "{\"heard\":true}\n");
  socket->close();
  std::ofstream{path} << "precious";
  EXPECT_THROW(serve(), std::system_error);
  EXPECT_TRUE(std::filesystem::exists(path));
}

/// Connected to `path`, with `request` sent.
int call(const std::filesystem::path& path, const std::string& request) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  path.string().copy(at.sun_path, sizeof at.sun_path - 1);
  EXPECT_EQ(connect(fd, std::bit_cast<sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  return fd;
}

TEST_F(control_socket_test, gives_up_calls_whose_caller_went) {
  constexpr int most = 16;
  std::vector<std::function<void(boost::json::object)>> unanswered;
  const auto at = folder / "slow.sock";
  control_socket slow{io, at, "", [&](const auto& request, const auto& then) {
                        if (request.contains("wait")) {
                          unanswered.push_back(then);
                        } else {
                          then({{"heard", true}});
                        }
                      }};
  std::vector<int> calls;
  for (int i = 0; i < most; ++i) {
    calls.push_back(call(at, "{\"wait\":1}\n"));
  }
  while (unanswered.size() < most) {
    io.run_one();
  }
  const int next = call(at, "{}\n");
  for (const int fd : calls) {
    close(fd);
  }
  std::string heard(64, '\0');
  ssize_t size = -1;
  for (const auto end = std::chrono::steady_clock::now() + std::chrono::seconds{10};
       size < 0 && std::chrono::steady_clock::now() < end;
       size = recv(next, heard.data(), heard.size(), MSG_DONTWAIT)) {
    io.run_one_for(std::chrono::milliseconds{100});
  }
  close(next);
  EXPECT_THAT(heard, HasSubstr("heard"));
  for (const auto& answer : unanswered) {
    answer({{"late", true}});  // does no harm
  }
  slow.close();
}

TEST_F(control_socket_test, answers_a_caller_that_ended_its_sending) {
  std::function<void(boost::json::object)> answer;
  const auto at = folder / "slow.sock";
  control_socket slow{io, at, "", [&](const auto&, const auto& then) { answer = then; }};
  const int fd = call(at, "{}\n");
  shutdown(fd, SHUT_WR);
  while (!answer) {
    io.run_one();
  }
  io.run_for(std::chrono::milliseconds{50});
  answer({{"heard", true}});
  answer = nullptr;
  std::string heard(64, '\0');
  io.run_for(std::chrono::milliseconds{50});
  EXPECT_GT(recv(fd, heard.data(), heard.size(), MSG_DONTWAIT), 0);
  EXPECT_THAT(heard, HasSubstr("heard"));
  close(fd);
  slow.close();
}

TEST_F(control_socket_test, says_which_group_is_not_there) {
  try {
    const control_socket other{io, folder / "other.sock", "no-such-group", {}};
    FAIL();
  } catch (const std::system_error& e) {
    EXPECT_THAT(e.what(), HasSubstr("there is no group 'no-such-group'"));
    EXPECT_FALSE(std::filesystem::exists(folder / "other.sock"));
  }
}

}  // namespace
}  // namespace gpurdma::daemon
