#pragma once

// The composition root: starts, serves, and stops in order.

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "daemon/acceptor.hpp"
#include "daemon/buffer_pool.hpp"
#include "daemon/config.hpp"
#include "daemon/control.hpp"
#include "daemon/control_socket.hpp"
#include "daemon/device_set.hpp"
#include "daemon/gpu_watch.hpp"
#include "daemon/publisher.hpp"
#include "daemon/registration_cache.hpp"
#include "daemon/reloader.hpp"
#include "daemon/self_check.hpp"
#include "daemon/session.hpp"
#include "rdma/cm_event_channel.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon {

class server {
 public:
  enum class outcome {
    stopped,      ///< by a signal
    never_ready,  ///< it could not start
    device_lost,  ///< the last RDMA device is gone
  };

  /// Opens the devices and binds the addresses and the control socket. `file` is where `settings` were read from, and
  /// where a reload reads them again. Throws std::system_error.
  server(boost::asio::io_context& io, config settings, std::filesystem::path file);
  server(const server&) = delete;
  server& operator=(const server&) = delete;
  /// After io.run() returned.
  ~server();

  /// Loads and registers, then listens. The reactor runs until a signal or a failure has ended everything.
  void start();

  /// As the first signal does. On the reactor.
  void stop();

  [[nodiscard]] outcome result() const noexcept { return outcome_; }

 private:
  enum class phase { starting, serving, stopping, ending };

  void load_buffers();
  void become_ready();
  void fail_start(const std::string& why);

  void open_control_socket();
  /// SIGHUP: also while another reload is under way, for the file may have changed after it was read.
  void reload();
  void start_reload(std::set<std::string> republish, reloader::done then);
  void on_device_lost(const principal_domain_ptr& domain);

  void wait_for_signal();
  void on_signal();
  void end_if_empty();

  [[nodiscard]] std::string phase_name() const;
  /// Tells the service manager, soon and not too often.
  void note_change();
  void tell_status() const;
  /// While buffers are made, says how far, and asks the service manager for more time where it gets on.
  void report_progress();
  void watch_gpus();
  void on_gpu_lost(const memory::gpu& which, const std::string& why);

  boost::asio::io_context& io_;
  config settings_;
  rdma::workers loaders_;     ///< load and verify, which takes long
  rdma::workers registrars_;  ///< register, which takes long for large buffers
  rdma::workers closers_;     ///< deregister, and close connections
  std::stop_source give_up_loading_;
  boost::asio::signal_set signals_;
  boost::asio::steady_timer drain_deadline_;
  boost::asio::steady_timer status_timer_;
  boost::asio::steady_timer progress_timer_;

  rdma::cm_event_channel channel_;
  device_set devices_;
  buffer_pool pool_;
  registration_cache registrations_;
  serving serving_;
  gpu_watch gpus_;
  acceptor acceptor_;
  publisher publisher_;
  reloader reloader_;
  control control_;
  std::optional<control_socket> control_socket_;
  std::optional<self_check> self_check_;

  phase phase_ = phase::starting;
  outcome outcome_ = outcome::stopped;
  std::uint64_t progress_ = 0;  ///< at the last report
  std::size_t steps_left_ = 0;  ///< buffers that are not yet in service at the start
  bool reload_again_ = false;
  bool status_is_due_ = false;
};

}  // namespace gpurdma::daemon
