#pragma once

// Reads the bytes that a lease lends into the memory of a GPU, and has the GPU check them there.

#include <chrono>
#include <cstdint>
#include <exception>
#include <vector>

#include "client/checksum_feed.hpp"
#include "client/landing.hpp"
#include "client/link.hpp"
#include "client/options.hpp"
#include "client/read_plan.hpp"
#include "client/transfer.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::client {

class gpu_fetch final : public transfer {
 public:
  /// As fetch; `worker` waits for the GPU. Blocks while it registers. Throws std::exception.
  gpu_fetch(const options& asked, const protocol::lease& lent, const memory::gpu_ptr& gpu, std::uint32_t read_size,
            link& over, rdma::workers& worker, transfer_handler& handler);

  void start() override;
  void on_read_done(std::uint32_t tag) override;
  void stop() override { stopped_ = true; }
  void report(outcome& to) const override;

 private:
  void post_reads();
  void check_if_all_is_there();
  /// On the worker: compares the blocks that were read as a whole.
  void check();
  void on_checked(const std::exception_ptr& error);
  void fail(failure why);

  options options_;
  protocol::lease lease_;
  memory::gpu_ptr gpu_;
  link& link_;
  rdma::workers& worker_;
  transfer_handler& handler_;

  read_plan plan_;
  std::uint64_t base_;  ///< of the buffer; it lies at the landing's first byte, so that blocks begin where the GPU's do
  landing landing_;
  checksum_feed feed_;
  std::vector<std::uint32_t> checksums_;  ///< of the blocks from the plan's first on
  std::vector<std::uint32_t> lengths_;    ///< of the READs under way, by tag
  std::vector<std::uint32_t> free_tags_;
  std::uint64_t bytes_ = 0;     ///< read
  std::uint64_t verified_ = 0;  ///< of them; the worker's, until all is transferred
  std::chrono::steady_clock::time_point began_;
  std::chrono::steady_clock::time_point ended_;
  bool checking_ = false;
  bool done_ = false;
  bool stopped_ = false;
};

}  // namespace gpurdma::client
