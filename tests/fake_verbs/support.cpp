#include "support.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "daemon/event.hpp"

namespace gpurdma::test {
namespace {

using testing::AnyOf;
using testing::IsEmpty;

/// No run of these tests takes so long, unless somebody waits for what will not come.
constexpr std::chrono::seconds longest_run{60};

class memory_sink final : public client::sink {
 public:
  explicit memory_sink(read_result& to) : to_{to} {}
  void write(std::span<const std::byte> bytes) override {
    to_.bytes.insert(to_.bytes.end(), bytes.begin(), bytes.end());
  }
  void commit() override { to_.committed = true; }

 private:
  read_result& to_;
};

void run_to_the_end(boost::asio::io_context& io, const char* whose) {
  io.run_for(longest_run);
  if (!io.stopped()) {
    std::printf("the %s hangs\n%s", whose, testing::internal::GetCapturedStderr().c_str());
    std::fflush(stdout);
    std::abort();
  }
}

}  // namespace

daemon::config server_settings() {
  daemon::config settings;
  settings.listen.push_back(rdma::endpoint::parse(fake_verbs::server_address, port));
  settings.buffers.push_back({.name = "numbers", .size = buffer_size, .source = memory::counting_fill{}});
  settings.log = daemon::log_level::debug;
  return settings;
}

client::options reader_settings() {
  client::options asked;
  asked.host = fake_verbs::server_address;
  asked.port = port;
  asked.buffer = "numbers";
  asked.depth = 4;
  asked.read_size = 128U << 10U;
  return asked;
}

const std::vector<std::byte>& numbers() {
  static const auto content = [] {
    std::vector<std::byte> bytes(buffer_size);
    std::uint64_t next = 0;
    for (std::size_t at = 0; at < bytes.size(); at += sizeof next, ++next) {
      std::memcpy(bytes.data() + at, &next, std::min(sizeof next, bytes.size() - at));
    }
    return bytes;
  }();
  return content;
}

running_server::running_server(fake_verbs::world& fake, daemon::config settings) : fake_{fake} {
  daemon::set_log_level(settings.log);
  fake.act_as(fake_verbs::host::server);
  try {
    daemon_ = std::make_unique<daemon::server>(io_, std::move(settings), "unused.yaml");
  } catch (const std::exception& e) {
    thrown_ = e.what();
    ended_ = true;
    return;
  }
  daemon_->start();
  thread_ = std::thread{[this] {
    run_to_the_end(io_, "server");
    ended_ = true;
    fake_.poke();
  }};
  EXPECT_TRUE(fake.wait_until([this] { return fake_.listening() || ended_; }));
}

running_server::~running_server() { stop(); }

void running_server::stop() {
  if (!thread_.joinable()) {
    return;
  }
  boost::asio::post(io_, [this] { daemon_->stop(); });
  thread_.join();
}

read_result read(fake_verbs::world& fake, const client::options& asked) {
  read_result result;
  result.bytes.reserve(buffer_size);
  fake.act_as(fake_verbs::host::client);
  try {
    boost::asio::io_context io{1};
    client::reader work{io, asked, std::make_unique<memory_sink>(result),
                        asked.to_gpu ? memory::find_gpu(*asked.to_gpu) : nullptr};
    work.start();
    run_to_the_end(io, "reader");
    result.outcome = work.result();
  } catch (const std::exception& e) {
    result.thrown = e.what();
  }
  return result;
}

over_fake_verbs::over_fake_verbs() { testing::internal::CaptureStderr(); }

over_fake_verbs::~over_fake_verbs() {
  const auto rest = log();
  // A sanitizer says there, too, what it found.
  if (HasFailure() || rest.find("Sanitizer") != std::string::npos) {
    std::printf("%s", rest.c_str());
  }
  testing::internal::GetCapturedStderr();
}

std::string over_fake_verbs::log() {
  log_ += testing::internal::GetCapturedStderr();
  testing::internal::CaptureStderr();
  return log_;
}

void over_fake_verbs::expect_clean_books() {
  EXPECT_THAT(fake.violations(), IsEmpty());
  EXPECT_THAT(fake.live(), IsEmpty());
}

void over_fake_verbs::expect_good(const read_result& result) {
  EXPECT_TRUE(result.good()) << result.why();
  ASSERT_EQ(result.bytes.size(), numbers().size());
  EXPECT_EQ(std::memcmp(result.bytes.data(), numbers().data(), numbers().size()), 0);
}

void over_fake_verbs::expect_reported(const read_result& result) {
  EXPECT_FALSE(result.committed);
  EXPECT_FALSE(result.why().empty());
  if (result.thrown.empty()) {
    using client::exit_status;
    EXPECT_THAT(result.status(),
                AnyOf(exit_status::cannot_connect, exit_status::refused, exit_status::transfer_failed));
  }
}

void over_fake_verbs::wait_for_clients_to_be_gone() {
  ASSERT_TRUE(fake.wait_until([&] { return fake.live(fake_verbs::host::server, "connection id") == 1; }));
}

void over_fake_verbs::TearDown() { expect_clean_books(); }

}  // namespace gpurdma::test
