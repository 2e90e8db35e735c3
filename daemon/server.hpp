#pragma once

// The composition root: starts, serves, and stops in order.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "daemon/buffer_pool.hpp"
#include "daemon/config.hpp"
#include "daemon/gpu_watch.hpp"
#include "daemon/registration_cache.hpp"
#include "daemon/session.hpp"
#include "rdma/cm_event_channel.hpp"
#include "rdma/device.hpp"
#include "rdma/listener.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon {

using device_list = std::unique_ptr<ibv_context*, void (*)(ibv_context**)>;

class server {
 public:
  /// Opens the devices and binds the addresses. Throws std::system_error.
  server(boost::asio::io_context& io, config settings);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  /// After io.run() returned.
  ~server();

  /// Loads and registers, then listens. The reactor runs until a signal or a failure to start has ended everything.
  void start();

  /// As the first signal does. On the reactor.
  void stop();

  /// Whether it never became ready.
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  enum class phase { starting, serving, stopping, ending };

  void add_devices();
  void add_device(ibv_context& context);
  void load_buffers();
  void report_progress();
  void register_buffers();
  void become_ready();
  void fail_start(const std::string& why);

  void on_signal();
  void wait_for_signal();
  void end_if_empty();

  void on_request(rdma::cm_id id, const rdma::cm_event& event);
  /// The session that `hello` asks for, new or known; the refusal where it may not have one.
  [[nodiscard]] std::shared_ptr<session> admit(const protocol::hello& hello, const std::string& peer,
                                               protocol::refusal& refused);
  [[nodiscard]] protocol::welcome greeting(const session& s) const;
  void verify_buffers();
  void watch_gpus();
  void note_gpu_error(const buffer_version& of, const std::exception_ptr& error);
  void on_gpu_lost(const memory::gpu& which, const std::string& why);

  boost::asio::io_context& io_;
  config settings_;
  rdma::workers loaders_;     ///< load and verify, which takes long
  rdma::workers registrars_;  ///< register, which takes long for large buffers
  rdma::workers closers_;     ///< deregister, and close connections
  std::stop_source give_up_loading_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer drain_deadline_;
  boost::asio::steady_timer progress_timer_;
  std::uint64_t incarnation_;

  rdma::cm_event_channel channel_;
  device_list contexts_;  ///< librdmacm closes none of them meanwhile
  std::map<ibv_context*, std::unique_ptr<rdma::device>> devices_;
  std::map<ibv_context*, principal_domain_ptr> anonymous_domains_;
  buffer_pool pool_;
  registration_cache registrations_;
  serving serving_;
  gpu_watch gpus_;
  std::vector<std::unique_ptr<rdma::listener>> listeners_;
  std::map<protocol::session_token, std::shared_ptr<session>> sessions_;

  phase phase_ = phase::starting;
  bool failed_ = false;
  std::map<std::string, std::shared_ptr<std::atomic<std::uint64_t>>> loading_;  ///< bytes done of each buffer
  std::size_t steps_left_ = 0;                                                  ///< of loading or registering
  std::uint64_t last_client_ = 0;
};

}  // namespace gpurdma::daemon
