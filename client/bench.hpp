#pragma once

// Measures READs: into memory, over and over, looking at none of the bytes.

#include <chrono>
#include <cstdint>
#include <vector>

#include "client/landing.hpp"
#include "client/link.hpp"
#include "client/options.hpp"
#include "client/transfer.hpp"

namespace gpurdma::client {

/// The figures of latencies, in microseconds, of which there is at least one.
[[nodiscard]] bench_figures figures_of(std::vector<float> latencies);

class bench final : public transfer {
 public:
  /// Into host memory where `gpu` is null. Blocks while it registers. Throws std::exception: memory that cannot be had
  /// or registered.
  bench(const options& asked, const protocol::lease& lent, const memory::gpu_ptr& gpu, std::uint32_t read_size,
        link& over, transfer_handler& handler);

  void start() override;
  void on_read_done(std::uint32_t tag) override;
  void stop() override { stopped_ = true; }
  void report(outcome& to) const override;

 private:
  using clock = std::chrono::steady_clock;
  void post(std::uint32_t slot);

  options options_;
  protocol::lease lease_;
  link& link_;
  transfer_handler& handler_;

  std::uint32_t read_size_;               ///< bytes
  std::uint64_t places_;                  ///< of the lease, read_size_ apart, that are read in turn
  std::vector<clock::time_point> slots_;  /// when each one's READ was posted
  landing landing_;                       ///< the slots' bytes
  std::uint64_t posted_ = 0;
  std::vector<float> latencies_;  ///< microseconds, of the READs done
  clock::time_point began_;
  clock::time_point ended_;
  bool stopped_ = false;
};

}  // namespace gpurdma::client
