// gpurdma-server: reads its configuration, serves until it is told to stop.

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <system_error>

#include "daemon/config.hpp"
#include "daemon/doctor/doctor.hpp"
#include "daemon/event.hpp"
#include "daemon/server.hpp"
#include "daemon/service_notifier.hpp"

namespace {

// Exit statuses, as docs/operations.md lists them.
enum exit_status {
  done = 0,
  usage = 1,
  bad_configuration = 2,
  no_device = 3,
  cannot_start = 4,
  lost_device = 5,
  check_failed = 6,
};

exit_status status_of(gpurdma::daemon::server::outcome result) {
  using outcome = gpurdma::daemon::server::outcome;
  switch (result) {
    case outcome::stopped:
      return done;
    case outcome::device_lost:
      return lost_device;
    default:
      return cannot_start;
  }
}

exit_status serve(gpurdma::daemon::config settings, const std::string& file) {
  using namespace gpurdma::daemon;
  set_log_level(settings.log);
  boost::asio::io_context io{1};
  try {
    server daemon{io, std::move(settings), file};
    daemon.start();
    io.run();
    emit(event_id::server_stopped, {});
    return status_of(daemon.result());
  } catch (const std::system_error& e) {
    emit(event_id::start_failed, {{"why", e.what()}});
    service_notifier::status(std::string{"cannot start: "} + e.what());
    return e.code() == std::errc::no_such_device ? no_device : cannot_start;
  }
}

/// Of a bad configuration: whether it would be good on a machine with the GPUs that it names. They may come.
bool only_gpus_are_missing(const std::string& file) {
  try {
    static_cast<void>(gpurdma::daemon::load_config(file, gpurdma::daemon::missing_gpu::allowed));
    return true;
  } catch (const gpurdma::daemon::config_error&) {
    return false;
  }
}

int examine(const gpurdma::daemon::doctor::options& what, bool as_json) {
  namespace doctor = gpurdma::daemon::doctor;
  const auto found = doctor::examine(what);
  const int status = doctor::worst_of(found.rows()) == doctor::verdict::fail ? check_failed : done;
  const auto text = as_json ? doctor::json(found.rows(), status) : doctor::table(found.rows());
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
  if (found.is_stuck()) {
    std::_Exit(status);  // not waiting for the thread that hangs
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Serves GPU memory buffers to many readers by one-sided RDMA READ."};
  app.name("gpurdma-server");
  app.set_version_flag("--version", std::string{"gpurdma-server "} + GPURDMA_VERSION);
  std::string file = "/etc/gpurdma/gpurdma-server.yaml";
  bool check_only = false;
  bool doctor = false;
  bool as_json = false;
  const auto* const config = app.add_option("--config", file, "Configuration file")->capture_default_str();
  auto* const check =
      app.add_flag("--check-config", check_only, "Check the configuration, say what is wrong with it, and exit");
  auto* const doctor_flag =
      app.add_flag("--doctor", doctor, "Check what this machine can serve, say what is in the way, and exit");
  doctor_flag->excludes(check);
  app.add_flag("--json", as_json, "With --doctor: the result as JSON")->needs(doctor_flag);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? done : usage;
  }
  try {
    if (doctor) {
      return examine({.config = file, .config_required = config->count() != 0}, as_json);
    }
    if (!check_only) {
      std::signal(SIGHUP, SIG_IGN);  // until the server listens to it; it would end the process
    }
    auto settings = gpurdma::daemon::load_config(file);
    return check_only ? done : serve(std::move(settings), file);
  } catch (const gpurdma::daemon::config_error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return !check_only && only_gpus_are_missing(file) ? no_device : bad_configuration;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpurdma-server: %s\n", e.what());
    return cannot_start;
  }
}
