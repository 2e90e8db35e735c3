#pragma once

// Brings versions of buffers into service and out of it.

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <stop_token>
#include <string>
#include <system_error>

#include "daemon/buffer_pool.hpp"
#include "daemon/device_set.hpp"
#include "daemon/registration_cache.hpp"
#include "daemon/reload_plan.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon {

/// Reactor thread only; the work is done by workers, and `done` is called from the reactor.
class publisher {
 public:
  /// Why it did not work, for people; empty where it did.
  using done = std::function<void(const std::string& why)>;
  /// Told when a version is retired, so that its holders can be told.
  using retired_handler = std::function<void(const retired_version& what)>;

  struct parts {
    rdma::workers& loaders;
    rdma::workers& closers;
    buffer_pool& pool;
    registration_cache& registrations;
    device_set& devices;
    const config& settings;  ///< those in force
    std::stop_token stop;
  };
  publisher(parts with, retired_handler on_retired) : with_{std::move(with)}, on_retired_{std::move(on_retired)} {}

  /// Loads and registers a version of `wanted`, and makes it the one that is lent. One that was lent before goes on
  /// until then, and on failure; but with `replace: drain` it is withdrawn first, and on failure nothing is served.
  void publish(const buffer_config& wanted, done then);
  /// Takes what `gpu` holds out of service: it failed.
  void withdraw(const memory::gpu& gpu, const std::string& why);
  /// Lends `name` no more. Its memory goes when its last lease has ended, or the grace time is over.
  void remove(const std::string& name);

  [[nodiscard]] const served_buffers& served() const noexcept { return served_; }

  /// A buffer that is being loaded.
  struct progress {
    std::string buffer;
    std::uint64_t bytes = 0;
    std::shared_ptr<std::atomic<std::uint64_t>> bytes_done = std::make_shared<std::atomic<std::uint64_t>>(0);
  };
  [[nodiscard]] const std::list<progress>& loading() const noexcept { return loading_; }

 private:
  struct loaded {
    buffer_version_ptr version;
    source_identity source;
  };
  void load(const buffer_config& wanted, done then);
  void register_everywhere(const buffer_config& wanted, const std::shared_ptr<loaded>& what, done then);
  void put_into_service(const buffer_config& wanted, loaded& what);
  void retire(buffer_version_ptr version, bool replaced, std::function<void()> freed);
  void free_when_unused(buffer_version_ptr version, std::function<void()> freed);

  parts with_;
  retired_handler on_retired_;
  served_buffers served_;
  std::list<progress> loading_;
};

}  // namespace gpurdma::daemon
