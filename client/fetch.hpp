#pragma once

// Reads the bytes that a lease lends, in order, checks them, and hands them to a sink.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "client/checksum_feed.hpp"
#include "client/link.hpp"
#include "client/options.hpp"
#include "client/read_plan.hpp"
#include "client/sink.hpp"
#include "client/transfer.hpp"
#include "memory/host_memory.hpp"
#include "rdma/memory_region.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::client {

class fetch final : public transfer {
 public:
  /// `worker` has one thread, which checks and writes. Throws std::system_error: memory that cannot be had or
  /// registered.
  fetch(const options& asked, const protocol::lease& lent, std::uint32_t read_size, link& over, rdma::workers& worker,
        sink& to, transfer_handler& handler);

  void start() override;
  void on_read_done(std::uint32_t tag) override;
  void stop() override { stopped_ = true; }
  void report(outcome& to) const override;

 private:
  struct slot {
    chunk what;
    bool arrived = false;
  };

  void ask_for_checksums();
  void on_checksums(std::uint64_t first, std::span<const std::uint32_t> values);
  void post_reads();
  void take_arrived();
  void on_taken(const std::exception_ptr& error);
  /// On the worker: checks and hands on one chunk.
  void take(std::span<const std::byte> bytes, const chunk& what, std::optional<std::uint32_t> expected);
  void fail(failure why);

  options options_;
  protocol::lease lease_;
  link& link_;
  rdma::workers& worker_;
  sink& sink_;
  transfer_handler& handler_;

  std::uint32_t chunk_size_;  ///< bytes
  read_plan plan_;
  std::vector<slot> slots_;          ///< a ring in the order of the plan
  memory::host_memory buffer_;       ///< the slots' bytes, each chunk_size_ long
  rdma::memory_region region_;       ///< of buffer_, in link_'s domain
  std::uint64_t chunks_posted_ = 0;  ///< chunk n is in slot n % slots
  std::uint64_t chunks_taken_ = 0;   ///< written and checked
  std::uint64_t bytes_ = 0;          ///< taken
  bool taking_ = false;              ///< the worker has a chunk
  checksum_feed feed_;
  std::map<std::uint64_t, std::uint32_t> checksums_;  ///< of blocks ahead
  std::uint32_t running_crc_ = 0;                     ///< of the current block; the worker's
  std::uint64_t verified_ = 0;                        ///< bytes; the worker's, until all is transferred
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point ended_;
  bool done_ = false;
  bool stopped_ = false;
};

}  // namespace gpurdma::client
