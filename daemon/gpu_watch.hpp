#pragma once

// Notices GPUs that fail while their memory is served.

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <string>
#include <vector>

#include "memory/gpu.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon {

/// Has every GPU do something each ten seconds, on a thread of its own: a GPU that hangs must keep nobody else waiting.
class gpu_watch {
 public:
  using lost = std::function<void(const memory::gpu& which, const std::string& why)>;

  /// `on_lost` is called from the reactor, once for each GPU whose context is of no use any more.
  gpu_watch(boost::asio::io_context& io, lost on_lost);
  gpu_watch(const gpu_watch&) = delete;
  gpu_watch& operator=(const gpu_watch&) = delete;
  /// Waits for the check that is under way.
  ~gpu_watch();

  /// From now on; what `gpu` holds is needed until stop(). Whether it was not watched before.
  bool add(const memory::gpu_ptr& gpu);
  /// For a GPU that was found out otherwise.
  void report(const memory::gpu& which, const std::string& why);
  void stop();

 private:
  void arm();
  void check();

  boost::asio::steady_timer timer_;
  rdma::workers worker_;
  lost on_lost_;
  std::vector<memory::gpu_ptr> gpus_;  ///< that work
  bool stopped_ = false;
};

/// Says in the log how far each GPU and each RDMA device are apart, and warns where another pair is better.
void report_placement(const std::vector<memory::gpu_ptr>& gpus, const std::vector<std::string>& rdma_devices);

}  // namespace gpurdma::daemon
