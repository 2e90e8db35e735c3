// Events of rdma_cm that are lost, late, early, or come twice.

#include <chrono>

#include "support.hpp"

namespace gpurdma::test {
namespace {

using client::exit_status;
using fake_verbs::host;
using testing::HasSubstr;
using testing::Not;

constexpr rdma_cm_event_type all_events[] = {
    RDMA_CM_EVENT_ADDR_RESOLVED,  RDMA_CM_EVENT_ADDR_ERROR,    RDMA_CM_EVENT_ROUTE_RESOLVED,
    RDMA_CM_EVENT_ROUTE_ERROR,    RDMA_CM_EVENT_CONNECT_ERROR, RDMA_CM_EVENT_UNREACHABLE,
    RDMA_CM_EVENT_REJECTED,       RDMA_CM_EVENT_ESTABLISHED,   RDMA_CM_EVENT_DISCONNECTED,
    RDMA_CM_EVENT_DEVICE_REMOVAL, RDMA_CM_EVENT_ADDR_CHANGE,   RDMA_CM_EVENT_TIMEWAIT_EXIT};

class order_of_events : public over_fake_verbs {
 protected:
  void wait_for_reads() {
    ASSERT_TRUE(fake.wait_until([&] { return fake.reads_held() == reader_settings().depth; }));
  }
  /// With one listener and one client.
  void wait_for_the_request() {
    ASSERT_TRUE(fake.wait_until([&] { return fake.live(host::server, "queue pair") == 1; }));
  }
};

TEST_F(order_of_events, does_not_need_established_where_a_message_comes) {
  fake.withhold(RDMA_CM_EVENT_ESTABLISHED, host::server);
  running_server server{fake, server_settings()};
  expect_good(read(fake));
  server.stop();
  EXPECT_THAT(log(), HasSubstr("client_connected"));
  EXPECT_THAT(log(), HasSubstr("client_left"));
}

TEST_F(order_of_events, is_not_disturbed_by_established_that_comes_late) {
  fake.withhold(RDMA_CM_EVENT_ESTABLISHED, host::server);
  fake.hold_reads(host::client);
  const running_server server{fake, server_settings()};
  running_reader reader{fake, reader_settings()};
  wait_for_reads();
  fake.deliver_withheld();
  fake.deliver(RDMA_CM_EVENT_ESTABLISHED, host::server);
  fake.release_reads(host::client);
  expect_good(reader.result());
}

TEST_F(order_of_events, with_no_answer_ends_the_reader_after_its_timeout) {
  fake.withhold(RDMA_CM_EVENT_ESTABLISHED, host::client);
  running_server server{fake, server_settings()};
  auto asked = reader_settings();
  asked.timeout = std::chrono::milliseconds{20};
  const auto result = read(fake, asked);
  EXPECT_EQ(result.status(), exit_status::cannot_connect);
  EXPECT_THAT(result.why(), HasSubstr("no answer in time"));
  wait_for_clients_to_be_gone();
  server.stop();
  EXPECT_THAT(log(), Not(HasSubstr("client_connected")));
  EXPECT_THAT(log(), HasSubstr("the peer gave up connecting"));
}

TEST_F(order_of_events, with_neither_established_nor_a_message_ends_the_client_by_keepalive) {
  fake.withhold(RDMA_CM_EVENT_ESTABLISHED, host::client);
  auto settings = server_settings();
  settings.keepalive_interval = std::chrono::milliseconds{10};
  settings.keepalive_timeout = std::chrono::milliseconds{30};
  running_server server{fake, settings};
  const auto result = read(fake);
  EXPECT_EQ(result.status(), exit_status::cannot_connect);
  wait_for_clients_to_be_gone();
  server.stop();
  EXPECT_THAT(log(), HasSubstr("client_dropped"));
}

TEST_F(order_of_events, may_disconnect_before_it_establishes) {
  fake.withhold(RDMA_CM_EVENT_ESTABLISHED, host::server);
  fake.withhold(RDMA_CM_EVENT_ESTABLISHED, host::client);
  const running_server server{fake, server_settings()};
  running_reader reader{fake, reader_settings()};
  wait_for_the_request();
  fake.deliver(RDMA_CM_EVENT_DISCONNECTED, host::server);
  wait_for_clients_to_be_gone();
  fake.deliver_withheld();
  const auto result = reader.result();
  expect_reported(result);
  EXPECT_EQ(result.status(), exit_status::cannot_connect);
  expect_good(read(fake));
}

TEST_F(order_of_events, may_reject_what_was_accepted) {
  fake.withhold(RDMA_CM_EVENT_ESTABLISHED, host::client);
  running_server server{fake, server_settings()};
  running_reader reader{fake, reader_settings()};
  wait_for_the_request();
  fake.deliver(RDMA_CM_EVENT_REJECTED, host::client, 28);
  const auto result = reader.result();
  EXPECT_EQ(result.status(), exit_status::cannot_connect);
  EXPECT_THAT(result.why(), HasSubstr("rejected"));
  wait_for_clients_to_be_gone();
  fake.deliver_withheld();
  expect_good(read(fake));
}

TEST_F(order_of_events, does_not_need_timewait_exit_nor_disconnected) {
  fake.withhold(RDMA_CM_EVENT_TIMEWAIT_EXIT, host::server);
  fake.withhold(RDMA_CM_EVENT_TIMEWAIT_EXIT, host::client);
  fake.withhold(RDMA_CM_EVENT_DISCONNECTED, host::client);
  const running_server server{fake, server_settings()};
  expect_good(read(fake));
  wait_for_clients_to_be_gone();
  fake.deliver_withheld();
  expect_good(read(fake));
}

TEST_F(order_of_events, may_bring_any_event_to_a_reader_in_the_middle_of_its_read) {
  const running_server server{fake, server_settings()};
  for (const auto type : all_events) {
    SCOPED_TRACE(rdma_event_str(type));
    fake.hold_reads(host::client);
    running_reader reader{fake, reader_settings()};
    wait_for_reads();
    fake.deliver(type, host::client);
    fake.deliver(type, host::client);
    fake.release_reads(host::client);
    const auto result = reader.result();
    if (!result.good()) {
      expect_reported(result);
      EXPECT_EQ(result.status(), exit_status::transfer_failed);
    }
    wait_for_clients_to_be_gone();
  }
  expect_good(read(fake));
}

TEST_F(order_of_events, may_bring_any_event_to_the_server_in_the_middle_of_a_read) {
  const running_server server{fake, server_settings()};
  for (const auto type : all_events) {
    SCOPED_TRACE(rdma_event_str(type));
    fake.hold_reads(host::client);
    running_reader reader{fake, reader_settings()};
    wait_for_reads();
    fake.deliver(type, host::server);
    fake.deliver(type, host::server);
    fake.release_reads(host::client);
    const auto result = reader.result();
    if (!result.good()) {
      expect_reported(result);
    }
    wait_for_clients_to_be_gone();
  }
  expect_good(read(fake));
  EXPECT_TRUE(server.running());
}

TEST_F(order_of_events, may_bring_any_event_to_a_reader_that_waits_for_the_answer) {
  const running_server server{fake, server_settings()};
  for (const auto type : all_events) {
    if (type == RDMA_CM_EVENT_ESTABLISHED) {
      continue;  // that is the answer
    }
    SCOPED_TRACE(rdma_event_str(type));
    fake.withhold(RDMA_CM_EVENT_ESTABLISHED, host::client);
    running_reader reader{fake, reader_settings()};
    wait_for_the_request();
    fake.deliver(type, host::client);
    fake.deliver_withheld();
    const auto result = reader.result();
    if (!result.good()) {
      expect_reported(result);
      EXPECT_EQ(result.status(), exit_status::cannot_connect);
    }
    wait_for_clients_to_be_gone();
  }
}

TEST_F(order_of_events, may_end_the_server_while_a_request_to_connect_waits) {
  fake.withhold(RDMA_CM_EVENT_CONNECT_REQUEST, host::server);
  running_server server{fake, server_settings()};
  running_reader reader{fake, reader_settings()};
  ASSERT_TRUE(fake.wait_until([&] { return fake.live(host::server, "connection id") == 2; }));
  server.stop();
  const auto result = reader.result();
  EXPECT_EQ(result.status(), exit_status::cannot_connect);
  EXPECT_FALSE(server.failed());
}

TEST_F(order_of_events, may_end_the_server_in_the_middle_of_a_read) {
  auto settings = server_settings();
  settings.drain_timeout = std::chrono::milliseconds{20};
  running_server server{fake, settings};
  fake.hold_reads(host::client);
  running_reader reader{fake, reader_settings()};
  wait_for_reads();
  server.stop();
  const auto result = reader.result();
  EXPECT_EQ(result.status(), exit_status::transfer_failed);
  EXPECT_THAT(result.why(), Not(HasSubstr("interrupted")));
}

}  // namespace
}  // namespace gpurdma::test
