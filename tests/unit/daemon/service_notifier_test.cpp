#include "daemon/service_notifier.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstdlib>
#include <string>

#include "tests/unit/files.hpp"

namespace gpurdma::daemon {
namespace {

/// Hears what a service manager would.
class manager {
 public:
  manager() {
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    const auto path = (folder_ / "notify").string();
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    EXPECT_EQ(bind(socket_, std::bit_cast<sockaddr*>(&at), sizeof at), 0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  manager(const manager&) = delete;
  manager& operator=(const manager&) = delete;
  ~manager() {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    close(socket_);
  }
  [[nodiscard]] std::string heard() const {
    std::array<char, 512> text{};
    const auto size = recv(socket_, text.data(), text.size(), MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string{text.data(), static_cast<std::size_t>(size)};
  }

 private:
  test::scratch_folder folder_;
  int socket_ = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
};

TEST(service_notifier, tells_the_manager) {
  const manager m;
  service_notifier::status("2 clients\n, 3 leases");
  EXPECT_EQ(m.heard(), "STATUS=2 clients , 3 leases");
  service_notifier::ready();
  EXPECT_EQ(m.heard(), "READY=1");
  service_notifier::reloading();
  EXPECT_TRUE(m.heard().starts_with("RELOADING=1\nMONOTONIC_USEC="));
  service_notifier::extend_timeout(std::chrono::seconds{30});
  EXPECT_EQ(m.heard(), "EXTEND_TIMEOUT_USEC=30000000");
  service_notifier::feed_watchdog();
  EXPECT_EQ(m.heard(), "WATCHDOG=1");
  service_notifier::stopping();
  EXPECT_EQ(m.heard(), "STOPPING=1");
  EXPECT_EQ(m.heard(), "nothing");
}

TEST(service_notifier, knows_the_watchdog_time) {
  const manager m;
  EXPECT_EQ(service_notifier::watchdog_time(), std::chrono::microseconds{0});
  setenv("WATCHDOG_USEC", "60000000", 1);
  EXPECT_EQ(service_notifier::watchdog_time(), std::chrono::seconds{60});
}

TEST(service_notifier, does_nothing_without_a_manager) { service_notifier::ready(); }

}  // namespace
}  // namespace gpurdma::daemon
