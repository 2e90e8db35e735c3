#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "rdma/listener.hpp"

namespace gpurdma::rdma {
namespace {

std::string written_again(const std::string& address, std::uint16_t port) {
  return endpoint::parse(address, port).to_string();
}

TEST(endpoint, writes_an_address_as_people_do) {
  EXPECT_EQ(written_again("192.0.2.1", 7471), "192.0.2.1:7471");
  EXPECT_EQ(written_again("0.0.0.0", 1), "0.0.0.0:1");
  EXPECT_EQ(written_again("255.255.255.255", 65535), "255.255.255.255:65535");
  EXPECT_EQ(written_again("2001:db8::7", 7471), "[2001:db8::7]:7471");
  EXPECT_EQ(written_again("2001:0DB8:0:0:0:0:0:7", 7471), "[2001:db8::7]:7471");
  EXPECT_EQ(written_again("::", 7471), "[::]:7471");
  EXPECT_EQ(written_again("::ffff:192.0.2.1", 7471), "[::ffff:192.0.2.1]:7471");
  EXPECT_EQ(written_again("fe80::1%lo", 7471), "[fe80::1%lo]:7471");
}

TEST(endpoint, is_the_socket_address_that_the_kernel_wants) {
  const auto v4 = endpoint::parse("192.0.2.1", 7471);
  ASSERT_EQ(v4.native()->sa_family, AF_INET);
  const auto& in4 = *reinterpret_cast<const sockaddr_in*>(v4.native());
  EXPECT_EQ(ntohs(in4.sin_port), 7471);
  EXPECT_EQ(ntohl(in4.sin_addr.s_addr), 0xC0000201U);

  const auto v6 = endpoint::parse("2001:db8::7", 7471);
  ASSERT_EQ(v6.native()->sa_family, AF_INET6);
  const auto& in6 = *reinterpret_cast<const sockaddr_in6*>(v6.native());
  EXPECT_EQ(ntohs(in6.sin6_port), 7471);
  EXPECT_EQ(in6.sin6_addr.s6_addr[0], 0x20);
  EXPECT_EQ(in6.sin6_addr.s6_addr[15], 7);
}

TEST(endpoint, keeps_a_copy_of_a_socket_address) {
  sockaddr_in6 given{};
  given.sin6_family = AF_INET6;
  given.sin6_port = htons(7471);
  given.sin6_addr = in6addr_loopback;
  const endpoint copy{reinterpret_cast<const sockaddr&>(given), sizeof given};
  given = {};
  EXPECT_EQ(copy.to_string(), "[::1]:7471");
}

TEST(endpoint, has_no_name_where_it_is_empty) { EXPECT_EQ(endpoint{}.to_string(), "unknown"); }

TEST(endpoint, refuses_all_but_addresses) {
  // The last ones are IPv4 addresses to inet_aton(3), but not to those who write them.
  for (const auto* const text : {"", "localhost", "example.org", "192.0.2.256", "192.0.2.1:7471", "192.0.2.1 ", " ::",
                                 "[::1]", "2001:db8::g", "1::2::3", "*", "192.0.2", "7471", "0x7f.1", "010.1.1.1"}) {
    try {
      const auto parsed = endpoint::parse(text, 7471);
      ADD_FAILURE() << '\'' << text << "' is " << parsed.to_string();
    } catch (const std::invalid_argument& e) {
      EXPECT_THAT(e.what(), testing::HasSubstr("'" + std::string{text} + "' is no IP address"));
    }
  }
  EXPECT_THROW(static_cast<void>(endpoint::parse(std::string{"192.0.2.1\0x", 11}, 7471)), std::invalid_argument);
}

}  // namespace
}  // namespace gpurdma::rdma
