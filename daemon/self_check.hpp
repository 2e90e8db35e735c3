#pragma once

// Whether the server gets its own work done.

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rdma/workers.hpp"

namespace gpurdma::daemon {

/// Looks once per period, from the reactor, which shows that this runs; and asks each group of workers to do nothing,
/// which it must have done by the next look, or else have ended another job meanwhile: a job of theirs may take long,
/// but not two periods.
class self_check {
 public:
  struct group {
    std::string name;
    rdma::workers& threads;
  };
  /// `healthy` is called at each look that finds nothing wrong. All of `groups` outlive this.
  self_check(boost::asio::io_context& io, std::chrono::microseconds period, std::vector<group> groups,
             std::function<void()> healthy);
  self_check(const self_check&) = delete;
  self_check& operator=(const self_check&) = delete;
  ~self_check();

  /// Looks no more; the reactor no longer waits for it.
  void stop();

 private:
  struct state {
    group of;
    bool asked = false;
    std::uint64_t jobs_ended = 0;  ///< at the last look
  };
  void wait();
  void look();
  [[nodiscard]] bool is_healthy(state& s);

  std::chrono::microseconds period_;
  std::function<void()> healthy_;
  std::vector<std::shared_ptr<state>> groups_;
  boost::asio::steady_timer timer_;
};

}  // namespace gpurdma::daemon
