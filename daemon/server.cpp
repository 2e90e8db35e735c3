#include "daemon/server.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "daemon/event.hpp"
#include "daemon/service_notifier.hpp"

namespace gpurdma::daemon {
namespace {

using namespace std::chrono_literals;

constexpr unsigned loading_threads = 2;

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const auto& part : parts) {
    text += (text.empty() ? "" : ",") + part;
  }
  return text;
}

/// A check that fails because the GPU does tells earlier than the watch.
void note_gpu_errors(gpu_watch& gpus, const std::vector<verification>& results) {
  for (const auto& r : results) {
    try {
      if (r.error && r.gpu) {
        std::rethrow_exception(r.error);
      }
    } catch (const std::system_error& e) {
      if (memory::is_gpu_lost(e.code())) {
        gpus.report(*r.gpu, e.what());
      }
    } catch (const std::exception&) {
      // It says nothing of the GPU, and was logged.
    }
  }
}

std::filesystem::path control_socket_path(const config& settings) {
  const char* const folder = std::getenv("RUNTIME_DIRECTORY");  // systemd's RuntimeDirectory=
  if (settings.control.socket.empty() && folder != nullptr) {
    return std::filesystem::path{folder} / "control.sock";
  }
  return settings.control.socket;
}

}  // namespace

server::server(boost::asio::io_context& io, config settings, std::filesystem::path file)
    : io_{io},
      settings_{std::move(settings)},
      loaders_{io, loading_threads},
      registrars_{io, 1},
      closers_{io, 1},
      signals_{io, SIGTERM, SIGINT, SIGHUP},
      drain_deadline_{io},
      status_timer_{io},
      progress_timer_{io},
      channel_{io},
      devices_{io, channel_,
               [this](const std::string&, const principal_domain_ptr& domain) { on_device_lost(domain); }},
      registrations_{registrars_, closers_, settings_.keys, give_up_loading_.get_token()},
      serving_{.io = io_,
               .closers = closers_,
               .settings = settings_,
               .pool = pool_,
               .registrations = registrations_,
               .changed = [this] { note_change(); }},
      gpus_{io, [this](const memory::gpu& which, const std::string& why) { on_gpu_lost(which, why); }},
      acceptor_{serving_, channel_, devices_, [this] { end_if_empty(); }},
      publisher_{{.loaders = loaders_,
                  .closers = closers_,
                  .pool = pool_,
                  .registrations = registrations_,
                  .devices = devices_,
                  .settings = settings_,
                  .stop = give_up_loading_.get_token()},
                 [this](const retired_version& what) {
                   for (const auto& s : acceptor_.sessions()) {
                     s->on_retired(what);
                   }
                   if (phase_ == phase::serving && reloader_.under_way()) {
                     // With `replace: drain` the reload goes on when the grace is over, at the latest.
                     service_notifier::extend_timeout(settings_.lease_grace + 60s);
                   }
                   note_change();
                 }},
      reloader_{loaders_, publisher_, settings_, std::move(file)},
      control_{{.shared = serving_,
                .clients = acceptor_,
                .pool = pool_,
                .devices = devices_,
                .reload = reloader_,
                .loaders = loaders_,
                .registrations = registrations_,
                .stop = give_up_loading_.get_token(),
                .start_reload = [this](std::set<std::string> republish,
                                       reloader::done then) { start_reload(std::move(republish), std::move(then)); },
                .phase = [this] { return phase_name(); },
                .verified = [this](const std::vector<verification>& results) { note_gpu_errors(gpus_, results); }}} {
  acceptor_.add_devices();
  open_control_socket();
}

server::~server() {
  loaders_.join();
  registrars_.join();
  closers_.join();
}

void server::open_control_socket() {
  const auto path = control_socket_path(settings_);
  if (!path.empty()) {
    control_socket_.emplace(io_, path, settings_.control.group,
                            [this](const auto& request, const auto& then) { control_.on_request(request, then); });
  }
}

void server::start() {
  forget_peers();
  emit(event_id::server_starting, {{"devices", devices_.names().size()},
                                   {"buffers", settings_.buffers.size()},
                                   {"open", "every client that reaches this server may read its buffers"}});
  wait_for_signal();
  if (const auto time = service_notifier::watchdog_time(); time.count() > 0) {
    self_check_.emplace(io_, time / 2,
                        std::vector<self_check::group>{{"registrars", registrars_}, {"closers", closers_}},
                        &service_notifier::feed_watchdog);
  }
  load_buffers();
}

void server::load_buffers() {
  steps_left_ = settings_.buffers.size();
  report_progress();
  for (const auto& wanted : config{settings_}.buffers) {
    publisher_.publish(wanted, [this, name = wanted.name](const std::string& why) {
      --steps_left_;
      note_change();
      if (!why.empty()) {
        fail_start("buffer " + name + ": " + why);
      } else if (steps_left_ == 0) {
        become_ready();
      }
    });
  }
}

void server::become_ready() {
  if (phase_ != phase::starting) {
    return;
  }
  try {
    acceptor_.listen();
  } catch (const std::system_error& e) {
    fail_start(e.what());
    return;
  }
  phase_ = phase::serving;
  watch_gpus();
  emit(event_id::server_ready, {{"listen", joined(acceptor_.addresses())},
                                {"devices", joined(devices_.names())},
                                {"buffers", pool_.all().size()}});
  tell_status();
  service_notifier::ready();
  if (std::exchange(reload_again_, false)) {
    reload();
  }
}

void server::fail_start(const std::string& why) {
  if (phase_ != phase::starting) {
    return;
  }
  outcome_ = outcome::never_ready;
  emit(event_id::start_failed, {{"why", why}});
  service_notifier::status("cannot start: " + why);
  stop();
}

void server::reload() {
  if (phase_ == phase::starting || reloader_.under_way()) {
    reload_again_ = true;
  } else if (phase_ == phase::serving) {
    start_reload({}, [](const reloader::result&) {});
  }
}

void server::start_reload(std::set<std::string> republish, reloader::done then) {
  service_notifier::reloading();
  reloader_.reload(std::move(republish), [this, then = std::move(then)](const reloader::result& result) {
    if (phase_ == phase::serving) {
      service_notifier::ready();
    }
    note_change();
    watch_gpus();
    then(result);
    if (std::exchange(reload_again_, false)) {
      reload();
    }
  });
  report_progress();
}

void server::on_device_lost(const principal_domain_ptr& domain) {
  registrations_.abandon(*domain);
  for (const auto& s : acceptor_.sessions()) {
    s->on_device_lost(domain->device);
  }
  if (devices_.empty() && phase_ != phase::stopping && phase_ != phase::ending) {
    // Whoever starts this again starts with what there is by then. librdmacm keeps the lost device's descriptors open
    // for as long as the process lives, which keeps some drivers from being removed.
    outcome_ = outcome::device_lost;
    stop();
  }
}

void server::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) {
      return;
    }
    if (signal == SIGHUP) {
      reload();
    } else {
      on_signal();
    }
    if (phase_ != phase::ending) {
      wait_for_signal();
    }
  });
}

void server::on_signal() {
  if (phase_ == phase::stopping) {
    // The second time: no more waiting for clients.
    drain_deadline_.cancel();
    return;
  }
  stop();
}

void server::stop() {
  if (phase_ == phase::stopping || phase_ == phase::ending) {
    return;
  }
  phase_ = phase::stopping;
  serving_.shutting_down = true;
  give_up_loading_.request_stop();
  emit(event_id::server_stopping, {{"clients", acceptor_.clients()}});
  service_notifier::stopping();
  service_notifier::extend_timeout(settings_.drain_timeout + 60s);
  if (outcome_ == outcome::stopped) {
    tell_status();
  }
  acceptor_.stop_listening();
  for (const auto& s : acceptor_.sessions()) {
    s->shut_down();
  }
  drain_deadline_.expires_after(settings_.drain_timeout);
  drain_deadline_.async_wait([this](const boost::system::error_code&) {
    // Due or hurried by a second signal; either way the clients have had their time.
    for (const auto& s : acceptor_.sessions()) {
      s->drop(make_error_code(protocol::errc::shutting_down));
    }
  });
  end_if_empty();
}

void server::end_if_empty() {
  if (phase_ != phase::stopping || acceptor_.clients() > 0) {
    return;
  }
  phase_ = phase::ending;
  // From here on nothing is started; the reactor returns when the last of this is done.
  drain_deadline_.cancel();
  status_timer_.cancel();
  progress_timer_.cancel();
  gpus_.stop();
  signals_.cancel();
  signals_.clear();  // should a worker be stuck, a further signal ends the process
  std::signal(SIGHUP, SIG_IGN);
  if (control_socket_) {
    control_socket_->close();
  }
  if (self_check_) {
    self_check_->stop();
  }
  registrations_.clear();
  pool_.clear();
  channel_.close();
  devices_.close();
}

std::string server::phase_name() const {
  switch (phase_) {
    case phase::starting:
      return "starting";
    case phase::serving:
      return "serving";
    default:
      return "stopping";
  }
}

void server::note_change() {
  if (status_is_due_ || phase_ == phase::ending) {
    return;
  }
  status_is_due_ = true;
  status_timer_.expires_after(1s);
  status_timer_.async_wait([this](const boost::system::error_code& error) {
    status_is_due_ = false;
    if (!error && outcome_ == outcome::stopped) {
      tell_status();
    }
  });
}

void server::tell_status() const {
  const auto buffers = std::to_string(pool_.all().size());
  if (phase_ == phase::starting) {
    service_notifier::status("loading: " + buffers + " of " + std::to_string(settings_.buffers.size()) + " buffers");
    return;
  }
  service_notifier::status(phase_name() + ": " + std::to_string(acceptor_.clients()) + " clients, " +
                           std::to_string(serving_.leases) + " leases, " + buffers + " buffers");
}

void server::report_progress() {
  if (phase_ == phase::ending || (phase_ != phase::starting && !reloader_.under_way())) {
    return;
  }
  auto progress = loaders_.jobs_ended() + registrars_.jobs_ended();
  for (const auto& l : publisher_.loading()) {
    const auto done = l.bytes_done->load();
    progress += done;
    if (done > 0) {
      emit(event_id::buffer_loading, {{"buffer", l.buffer}, {"bytes_done", done}, {"bytes", l.bytes}});
    }
  }
  if (std::exchange(progress_, progress) != progress) {
    service_notifier::extend_timeout(60s);
  }
  progress_timer_.expires_after(10s);
  progress_timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      report_progress();
    }
  });
}

void server::watch_gpus() {
  std::vector<memory::gpu_ptr> added;
  for (const auto& version : pool_.all()) {
    if (version->gpu && gpus_.add(version->gpu)) {
      added.push_back(version->gpu);
    }
  }
  report_placement(added, devices_.names());
}

void server::on_gpu_lost(const memory::gpu& which, const std::string& why) {
  emit(event_id::gpu_lost, {{"gpu", which.info().label()}, {"why", why}});
  auto revoked = std::make_shared<std::vector<std::pair<std::weak_ptr<session>, std::vector<std::uint64_t>>>>();
  for (const auto& s : acceptor_.sessions()) {
    revoked->emplace_back(s, s->revoke(which));
  }
  publisher_.withdraw(which, why);
  // After what withdraw() has the closers do, so that clients are told when the keys are dead.
  closers_.run([] {},
               [revoked, why](const std::exception_ptr&) {
                 for (const auto& [weak, leases] : *revoked) {
                   if (const auto s = weak.lock()) {
                     s->tell_revoked(leases, why);
                   }
                 }
               });
}

}  // namespace gpurdma::daemon
