// Completions with an error, and completion queues that fail.

#include <cerrno>
#include <chrono>

#include "rdma/error.hpp"
#include "support.hpp"

namespace gpurdma::test {
namespace {

using client::exit_status;
using fake_verbs::call;
using fake_verbs::host;
using fake_verbs::work;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr ibv_wc_status of_sending[] = {IBV_WC_LOC_LEN_ERR,   IBV_WC_LOC_QP_OP_ERR,   IBV_WC_LOC_PROT_ERR,
                                        IBV_WC_WR_FLUSH_ERR,  IBV_WC_REM_INV_REQ_ERR, IBV_WC_REM_ACCESS_ERR,
                                        IBV_WC_REM_OP_ERR,    IBV_WC_RETRY_EXC_ERR,   IBV_WC_RNR_RETRY_EXC_ERR,
                                        IBV_WC_REM_ABORT_ERR, IBV_WC_FATAL_ERR,       IBV_WC_GENERAL_ERR};
constexpr ibv_wc_status of_receiving[] = {IBV_WC_LOC_LEN_ERR,  IBV_WC_LOC_QP_OP_ERR,  IBV_WC_LOC_PROT_ERR,
                                          IBV_WC_WR_FLUSH_ERR, IBV_WC_LOC_ACCESS_ERR, IBV_WC_FATAL_ERR};

class completion_error : public over_fake_verbs {
 protected:
  void try_each(host at, work kind, std::span<const ibv_wc_status> statuses) {
    running_server server{fake, server_settings()};
    for (const auto status : statuses) {
      for (unsigned n = 1; n <= 2; ++n) {
        SCOPED_TRACE(std::string{ibv_wc_status_str(status)} + ", completion " + std::to_string(n));
        fake.complete_with(at, kind, n, status);
        const auto result = read(fake);
        wait_for_clients_to_be_gone();
        if (at == host::client) {
          expect_reported(result);
          EXPECT_EQ(result.status(), exit_status::transfer_failed);
          EXPECT_THAT(result.why(), HasSubstr(ibv_wc_status_str(status)));
        } else if (!result.good()) {
          expect_reported(result);
        }
        fake.complete_with(at, kind, 0, IBV_WC_SUCCESS);
        expect_good(read(fake));
        ASSERT_THAT(fake.violations(), IsEmpty());
      }
    }
    EXPECT_TRUE(server.running());
  }
};

TEST_F(completion_error, of_a_read_ends_the_reader_with_its_name) { try_each(host::client, work::read, of_sending); }
TEST_F(completion_error, of_a_send_ends_the_reader_with_its_name) { try_each(host::client, work::send, of_sending); }
TEST_F(completion_error, of_a_receive_ends_the_reader_with_its_name) {
  try_each(host::client, work::receive, of_receiving);
}
TEST_F(completion_error, of_a_send_costs_the_server_one_client) { try_each(host::server, work::send, of_sending); }
TEST_F(completion_error, of_a_receive_costs_the_server_one_client) {
  try_each(host::server, work::receive, of_receiving);
  EXPECT_THAT(log(), HasSubstr("client_lost"));
}

TEST_F(completion_error, of_a_read_past_the_lease_says_that_the_key_may_be_withdrawn) {
  const running_server server{fake, server_settings()};
  fake.complete_with(host::client, work::read, 3, IBV_WC_REM_ACCESS_ERR);
  EXPECT_THAT(read(fake).why(), HasSubstr("the lease ended, or the server withdrew the key"));
}

class completion_queue : public over_fake_verbs {
 protected:
  /// A read that is stopped in the middle, and goes on after `meanwhile`.
  template <typename F>
  read_result read_with_a_break(F meanwhile) {
    fake.hold_reads(host::client);
    const auto asked = reader_settings();
    running_reader reader{fake, asked};
    EXPECT_TRUE(fake.wait_until([&] { return fake.reads_held() == asked.depth; }));
    meanwhile();
    fake.release_reads(host::client);
    return reader.result();
  }
};

TEST_F(completion_queue, may_wake_with_nothing_to_poll) {
  const running_server server{fake, server_settings()};
  expect_good(read_with_a_break([&] {
    for (int i = 0; i < 200; ++i) {  // more than events that are acknowledged, or taken, at once
      fake.wake_spuriously(host::server);
      fake.wake_spuriously(host::client);
    }
  }));
}

TEST_F(completion_queue, whose_event_cannot_be_taken_is_asked_again) {
  const running_server server{fake, server_settings()};
  for (const int error : {EINTR, EAGAIN, ENOMEM}) {
    fake.fail(call::ibv_get_cq_event, host::server, 1, error, 3);
    fake.fail(call::ibv_get_cq_event, host::client, 1, error, 3);
    expect_good(read(fake));
  }
}

TEST_F(completion_queue, of_the_server_that_cannot_be_polled_costs_its_clients_and_is_not_used_again) {
  running_server server{fake, server_settings()};
  const auto result = read_with_a_break([&] {
    fake.fail(call::ibv_poll_cq, host::server, 1, EIO);
    fake.wake_spuriously(host::server);
    wait_for_clients_to_be_gone();
  });
  EXPECT_EQ(result.status(), exit_status::transfer_failed);
  expect_good(read(fake));
  EXPECT_EQ(fake.live(host::server, "completion queue"), 2U);
  server.stop();
  EXPECT_THAT(log(), HasSubstr("client_lost"));
}

TEST_F(completion_queue, of_the_server_that_cannot_be_armed_costs_its_clients_and_is_not_used_again) {
  const running_server server{fake, server_settings()};
  const auto result = read_with_a_break([&] {
    fake.fail(call::ibv_req_notify_cq, host::server, 1, EIO);
    fake.wake_spuriously(host::server);
    wait_for_clients_to_be_gone();
  });
  EXPECT_EQ(result.status(), exit_status::transfer_failed);
  expect_good(read(fake));
  EXPECT_EQ(fake.live(host::server, "completion queue"), 2U);
}

TEST_F(completion_queue, of_the_reader_that_fails_ends_it_at_once) {
  const running_server server{fake, server_settings()};
  for (const auto which : {call::ibv_poll_cq, call::ibv_req_notify_cq}) {
    const auto result = read_with_a_break([&] {
      fake.fail(which, host::client, 1, EIO);
      fake.wake_spuriously(host::client);
      EXPECT_TRUE(fake.wait_until([&] { return fake.reads_held() == 0; }));
    });
    EXPECT_EQ(result.status(), exit_status::transfer_failed);
    EXPECT_THAT(result.why(), HasSubstr(std::make_error_code(std::errc::io_error).message()));
  }
}

TEST_F(completion_queue, is_added_where_one_is_full) {
  auto bounds = fake_verbs::limits{};
  bounds.completion_queue_entries = 64;  // two connections of the server need 28 each
  fake.set_limits(host::server, bounds);
  const running_server server{fake, server_settings()};
  fake.hold_reads(host::client);
  std::vector<std::unique_ptr<running_reader>> readers;
  for (int i = 0; i < 5; ++i) {
    readers.push_back(std::make_unique<running_reader>(fake, reader_settings()));
  }
  EXPECT_TRUE(fake.wait_until([&] { return fake.reads_held() == 5U * reader_settings().depth; }));
  EXPECT_EQ(fake.live(host::server, "completion queue"), 3U);
  fake.release_reads(host::client);
  for (const auto& r : readers) {
    expect_good(r->result());
  }
}

TEST_F(completion_queue, that_is_too_small_refuses_the_client) {
  auto bounds = fake_verbs::limits{};
  bounds.completion_queue_entries = 16;
  fake.set_limits(host::server, bounds);
  running_server server{fake, server_settings()};
  const auto result = read(fake);
  EXPECT_EQ(result.status(), exit_status::refused);
  server.stop();
  EXPECT_THAT(log(), HasSubstr("has too small completion queues"));
}

TEST_F(completion_queue, with_asynchronous_events_is_not_disturbed) {
  running_server server{fake, server_settings()};
  expect_good(read_with_a_break([&] {
    fake.raise_async_event(host::server, IBV_EVENT_PORT_ERR);
    fake.raise_async_event(host::server, IBV_EVENT_PORT_ACTIVE);
    fake.raise_async_event(host::client, IBV_EVENT_PORT_ACTIVE);
  }));
  server.stop();
  EXPECT_THAT(log(), HasSubstr("device_event"));
}

}  // namespace
}  // namespace gpurdma::test
