#pragma once

// Carries out what the options ask for, over one link.

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/failure.hpp"
#include "client/link.hpp"
#include "client/options.hpp"
#include "client/read_plan.hpp"
#include "client/sink.hpp"
#include "memory/host_memory.hpp"
#include "rdma/memory_region.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::client {

/// What a read came to.
struct outcome {
  std::optional<failure> failed;
  std::uint64_t bytes = 0;     ///< read and handed on
  std::uint64_t verified = 0;  ///< of them, in blocks whose checksum was right
  double seconds = 0;          ///< from the first READ to the last byte handed on
  std::string peer;
  std::uint64_t version = 0;
  std::vector<protocol::listing::entry> buffers;  ///< of --list
};

class reader final : private link_handler {
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
  struct slot {
    chunk what;
    bool arrived = false;
  };

  void on_connected() override;
  void on_read_done(std::uint32_t tag, std::error_code result) override;
  void on_notice(const protocol::notice& what) override;
  void on_lost(failure why) override;
  void on_closed() override;

  void resolve();
  void list_after(const std::string& name);
  void open();
  void on_lease(const protocol::lease& given);
  [[nodiscard]] bool is_credible(const protocol::lease& given) const;
  void renew_in_time();
  void prepare_slots();
  void fetch_checksums();
  void post_reads();
  void post_read(std::uint32_t index);
  void take_arrived();
  void on_taken(const std::exception_ptr& error);
  /// On the worker: checks and hands on one chunk.
  void take(std::span<const std::byte> bytes, const chunk& what, std::optional<std::uint32_t> expected);
  void finish_reading();
  void release();
  void stop_heeding_signals();
  void stalled();
  void fail(exit_status status, std::string what);
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

  std::optional<memory::host_memory> buffer_;  ///< the slots, each options_.chunk long
  link link_;
  std::optional<rdma::memory_region> region_;  ///< of buffer_, in link_'s domain

  protocol::lease lease_;
  std::optional<read_plan> plan_;
  std::vector<slot> slots_;                           ///< a ring in the order of the plan
  std::uint64_t chunks_posted_ = 0;                   ///< chunk n is in slot n % slots
  std::uint64_t chunks_taken_ = 0;                    ///< written and checked
  bool taking_ = false;                               ///< the worker has a chunk
  std::map<std::uint64_t, std::uint32_t> checksums_;  ///< of blocks ahead
  std::uint64_t checksums_until_ = 0;                 ///< the first block not asked for
  bool checksums_asked_ = false;
  std::uint32_t running_crc_ = 0;  ///< of the current block; the worker's
  std::uint64_t verified_ = 0;     ///< bytes; the worker's
  std::chrono::steady_clock::time_point began_;
  bool complete_ = false;   ///< every byte was read, checked and written: the server is not needed any more
  bool sink_busy_ = false;  ///< the worker commits the output
  bool link_lost_ = false;
  bool closing_ = false;
};

}  // namespace gpurdma::client
