#include "daemon/control_socket.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <boost/json/serialize.hpp>
#include <fstream>
#include <string>
#include <thread>

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
