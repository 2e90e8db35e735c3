// gpurdma-server: reads its configuration, serves until it is told to stop.

#include <CLI/CLI.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <string>
#include <system_error>

#include "daemon/config.hpp"
#include "daemon/event.hpp"
#include "daemon/server.hpp"
#include "daemon/service_notifier.hpp"

namespace {

// Exit statuses, as docs/operations.md lists them.
enum exit_status { done = 0, usage = 1, bad_configuration = 2, no_device = 3, cannot_start = 4, lost_device = 5 };

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

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Serves GPU memory buffers to many readers by one-sided RDMA READ."};
  app.name("gpurdma-server");
  app.set_version_flag("--version", std::string{"gpurdma-server "} + GPURDMA_VERSION);
  std::string file = "/etc/gpurdma/gpurdma-server.yaml";
  bool check_only = false;
  app.add_option("--config", file, "Configuration file")->capture_default_str();
  app.add_flag("--check-config", check_only, "Check the configuration, say what is wrong with it, and exit");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? done : usage;
  }
  try {
    auto settings = gpurdma::daemon::load_config(file);
    return check_only ? done : serve(std::move(settings), file);
  } catch (const gpurdma::daemon::config_error& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return bad_configuration;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpurdma-server: %s\n", e.what());
    return cannot_start;
  }
}
