#pragma once

// The real server and the real reader, over fake verbs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <cstddef>
#include <cstdint>
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
[[nodiscard]] std::vector<std::byte> numbers();

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
  [[nodiscard]] bool failed() const noexcept { return !daemon_ || daemon_->failed(); }
  [[nodiscard]] bool running() const noexcept { return daemon_ && !ended_; }

  /// As SIGTERM does; returns when it has ended.
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

/// At the end of each test nothing is left and no rule was broken.
class over_fake_verbs : public testing::Test {
 protected:
  over_fake_verbs();
  ~over_fake_verbs() override;
  void TearDown() override;

  /// What the server logged so far.
  std::string log();
  /// Of one run among several in a test.
  void expect_clean_books();
  void expect_good(const read_result& result);

  fake_verbs::world fake;

 private:
  boost::asio::io_context idle_{1};
  /// While a signal has a set, it does not end the program when the server has given up its own.
  boost::asio::signal_set signals_;
  std::string log_;
};

}  // namespace gpurdma::test
