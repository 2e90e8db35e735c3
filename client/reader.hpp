#pragma once

// Carries out what the options ask for, over one link.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "client/failure.hpp"
#include "client/link.hpp"
#include "client/options.hpp"
#include "client/outcome.hpp"
#include "client/sink.hpp"
#include "client/transfer.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::client {

class reader final : private link_handler, private transfer_handler {
 public:
  /// Throws std::system_error: no RDMA device, or the output cannot be made.
  reader(boost::asio::io_context& io, const options& asked, std::unique_ptr<sink> to);
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
  void stalled();
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

  link link_;
  protocol::lease lease_;
  std::unique_ptr<transfer> transfer_;
  std::chrono::steady_clock::time_point connecting_since_;
  bool complete_ = false;   ///< every byte was read, checked and written: the server is not needed any more
  bool sink_busy_ = false;  ///< the worker commits the output
  bool link_lost_ = false;
  bool closing_ = false;
};

}  // namespace gpurdma::client
