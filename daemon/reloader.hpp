#pragma once

// Brings a new configuration into force while the server serves.

#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/config.hpp"
#include "daemon/publisher.hpp"
#include "daemon/reload_plan.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon {

/// Reactor thread only. Buffers are replaced one after the other, so that the room for one more is enough.
class reloader {
 public:
  struct failure {
    std::string buffer;
    std::string why;
  };
  struct result {
    std::string why;  ///< the whole was refused; empty where it was not
    reload_plan plan;
    std::vector<failure> failed;  ///< buffers that stay as they were, or out of service

    [[nodiscard]] bool ok() const noexcept { return why.empty() && failed.empty(); }
  };
  using done = std::function<void(const result&)>;

  /// `settings` are those in force, which a reload changes.
  reloader(rdma::workers& loaders, publisher& buffers, config& settings, std::filesystem::path file);

  [[nodiscard]] bool under_way() const noexcept { return under_way_; }
  /// Reads the file again; not while under_way(). Nothing changes where the file is not good.
  void reload(std::set<std::string> republish, done then);

 private:
  struct job;
  void on_read(const std::shared_ptr<job>& j, const std::exception_ptr& error);
  void next(const std::shared_ptr<job>& j);
  void finish(const std::shared_ptr<job>& j);

  rdma::workers& loaders_;
  publisher& buffers_;
  config& settings_;
  std::filesystem::path file_;
  bool under_way_ = false;
};

}  // namespace gpurdma::daemon
