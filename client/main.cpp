// gpurdma-read: reads a buffer of a gpurdma-server.

#include <boost/asio/io_context.hpp>
#include <csignal>
#include <cstdio>
#include <system_error>

#include "client/options.hpp"
#include "client/reader.hpp"
#include "client/report.hpp"

namespace {

using gpurdma::client::exit_status;

int fail(exit_status status, const std::string& what) {
  std::fprintf(stderr, "gpurdma-read: %s\n", what.c_str());
  return static_cast<int>(status);
}

int report(const gpurdma::client::options& asked, const gpurdma::client::outcome& result) {
  using namespace gpurdma::client;
  if (asked.json) {
    std::printf("%s\n", json(asked, result).c_str());
  }
  if (result.failed) {
    return fail(result.failed->status, result.failed->what);
  }
  if (!asked.json) {
    // Standard output may carry the data.
    std::FILE* const to = asked.output == "-" ? stderr : stdout;
    std::fprintf(to, "%s", asked.list ? table(result).c_str() : (summary(result) + "\n").c_str());
  }
  return std::fflush(stdout) == 0 ? static_cast<int>(exit_status::done)
                                  : fail(exit_status::cannot_write, "cannot write standard output");
}

}  // namespace

int main(int argc, char** argv) {
  int status = 0;
  const auto asked = gpurdma::client::parse_options(argc, argv, status);
  if (!asked) {
    return status;
  }
  // A closed pipe is an error of write(2), with its own exit status.
  std::signal(SIGPIPE, SIG_IGN);  // NOLINT(cert-err33-c)
  std::unique_ptr<gpurdma::client::sink> to;
  gpurdma::memory::gpu_ptr gpu;
  try {
    to = gpurdma::client::make_sink(asked->output);
  } catch (const std::system_error& e) {
    return fail(exit_status::cannot_write, e.what());
  }
  try {
    gpu = asked->to_gpu ? gpurdma::memory::find_gpu(*asked->to_gpu) : nullptr;
  } catch (const std::exception& e) {
    return fail(exit_status::cannot_write, "--to-gpu " + *asked->to_gpu + ": " + e.what());
  }
  try {
    boost::asio::io_context io{1};
    gpurdma::client::reader work{io, *asked, std::move(to), std::move(gpu)};
    work.start();
    io.run();
    return report(*asked, work.result());
  } catch (const std::system_error& e) {
    return fail(exit_status::cannot_connect, e.what());
  } catch (const std::exception& e) {
    return fail(exit_status::transfer_failed, e.what());
  }
}
