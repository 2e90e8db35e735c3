#pragma once

// The real server and the real reader, over fake verbs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "client/reader.hpp"
#include "daemon/server.hpp"
#include "fake_verbs.hpp"

namespace gpurdma::test {

inline constexpr std::uint16_t port = 7471;
/// Not a multiple of anything, and of several checksum blocks.
inline constexpr std::size_t buffer_size = (2U << 20U) + 4321;

/// One buffer, "numbers", that counts.
[[nodiscard]] daemon::config server_settings();
/// Reads it, in many chunks.
[[nodiscard]] client::options reader_settings();
/// What a read of it brings.
[[nodiscard]] const std::vector<std::byte>& numbers();

/// A server on a thread of its own.
class running_server {
 public:
  /// Returns once it listens or has ended.
  running_server(fake_verbs::world& fake, daemon::config settings);
  running_server(const running_server&) = delete;
  running_server& operator=(const running_server&) = delete;
  ~running_server();

  /// What its constructor threw; empty if nothing.
  [[nodiscard]] const std::string& thrown() const noexcept { return thrown_; }
  [[nodiscard]] bool failed() const noexcept {
    return !daemon_ || daemon_->result() != daemon::server::outcome::stopped;
  }
  [[nodiscard]] bool running() const noexcept { return daemon_ && !ended_; }

  /// Returns when it has ended. A signal would interrupt readers as well.
  void stop();

 private:
  fake_verbs::world& fake_;
  boost::asio::io_context io_{1};
  std::string thrown_;
  std::unique_ptr<daemon::server> daemon_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

struct read_result {
  client::outcome outcome;
  std::string thrown;  ///< by the reader's constructor
  std::vector<std::byte> bytes;
  bool committed = false;

  [[nodiscard]] bool good() const { return thrown.empty() && !outcome.failed && committed; }
  [[nodiscard]] std::string why() const { return outcome.failed ? outcome.failed->what : thrown; }
  [[nodiscard]] std::optional<client::exit_status> status() const {
    return outcome.failed ? std::optional{outcome.failed->status} : std::nullopt;
  }
};

/// Runs a reader to its end.
[[nodiscard]] read_result read(fake_verbs::world& fake, const client::options& asked = reader_settings());

/// A reader on a thread of its own.
class running_reader {
 public:
  running_reader(fake_verbs::world& fake, const client::options& asked)
      : result_{std::async(std::launch::async, [&fake, asked] { return read(fake, asked); })} {}
  /// Once it has ended.
  [[nodiscard]] read_result result() { return result_.get(); }

 private:
  std::future<read_result> result_;
};

/// At the end of each test nothing is left and no rule was broken.
class over_fake_verbs : public testing::Test {
 protected:
  over_fake_verbs();
  ~over_fake_verbs() override;
  void TearDown() override;

  /// What the server logged. Not while one runs: what it says in the moment of the call would be missed.
  std::string log();
  /// Of one run among several in a test.
  void expect_clean_books();
  void expect_good(const read_result& result);
  /// It failed, and says why.
  void expect_reported(const read_result& result);
  /// The server is done with its clients. With one listener only that one's id is left.
  void wait_for_clients_to_be_gone();

  fake_verbs::world fake;

 private:
  std::string log_;
};

}  // namespace gpurdma::test
