#pragma once

// Carries out what the options ask for, over one link.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "client/failure.hpp"
#include "client/link.hpp"
#include "client/options.hpp"
#include "client/outcome.hpp"
#include "client/sink.hpp"
#include "client/transfer.hpp"
#include "memory/gpu.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::client {

class reader final : private link_handler, private transfer_handler {
 public:
  /// Throws std::system_error: no RDMA device, or the output cannot be made.
  /// `gpu`: to read into, or null.
  reader(boost::asio::io_context& io, const options& asked, std::unique_ptr<sink> to, memory::gpu_ptr gpu = nullptr);
  reader(const reader&) = delete;
  reader& operator=(const reader&) = delete;
  ~reader();

  /// The reactor then runs until all is done or has failed.
  void start();
  [[nodiscard]] const outcome& result() const noexcept { return outcome_; }

 private:
  void on_connected() override;
  void on_read_done(std::uint32_t tag, std::error_code result) override;
  void on_notice(const protocol::notice& what) override;
  void on_lost(failure why) override;
  void on_closed() override {}
  void on_transferred() override;
  void on_transfer_failed(failure why) override;

  void resolve();
  void list_after(const std::string& name);
  void open();
  void on_lease(const protocol::lease& given);
  [[nodiscard]] bool is_credible(const protocol::lease& given) const;
  void renew_in_time();
  void release();
  void stop_heeding_signals();
  /// On the worker, for registering memory takes long.
  [[nodiscard]] std::unique_ptr<transfer> make_transfer(std::uint32_t read_size);
  void on_transfer_made(std::unique_ptr<transfer> made, const std::exception_ptr& error);
  void watch_progress();
  void fail(failure why);
  void close();

  boost::asio::io_context& io_;
  options options_;
  outcome outcome_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer renewal_;
  boost::asio::steady_timer stall_;
  rdma::workers worker_;
  std::unique_ptr<sink> sink_;
  memory::gpu_ptr gpu_;

  link link_;
  protocol::lease lease_;
  std::unique_ptr<transfer> transfer_;
  std::chrono::steady_clock::time_point connecting_since_;
  std::chrono::steady_clock::time_point progress_;  ///< when a READ last completed
  bool complete_ = false;   ///< every byte was read, checked and written: the server is not needed any more
  bool sink_busy_ = false;  ///< the worker commits the output
  bool link_lost_ = false;
  bool closing_ = false;
};

}  // namespace gpurdma::client
