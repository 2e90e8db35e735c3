#pragma once

// What an operator may ask for: commands and answers as JSON objects. docs/operations.md describes them.

#include <boost/json/object.hpp>
#include <chrono>
#include <functional>
#include <set>
#include <stop_token>
#include <string>

#include "daemon/acceptor.hpp"
#include "daemon/buffer_pool.hpp"
#include "daemon/device_set.hpp"
#include "daemon/publisher.hpp"
#include "daemon/reloader.hpp"
#include "daemon/verifier.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon {

class control {
 public:
  struct parts {
    const serving& shared;
    acceptor& clients;
    const buffer_pool& pool;
    const device_set& devices;
    const reloader& reload;
    rdma::workers& loaders;
    registration_cache& registrations;
    std::stop_token stop;
    std::function<void(std::set<std::string> republish, reloader::done then)> start_reload;
    std::function<std::string()> phase;  ///< starting, serving, stopping
    std::function<void(const std::vector<verification>&)> verified;
  };
  explicit control(parts with) : with_{std::move(with)} {}

  using answer = std::function<void(boost::json::object)>;
  /// Every answer has a member `result`: done, refused (with `error`), incomplete or damaged.
  void on_request(const boost::json::object& request, const answer& then);

 private:
  void dispatch(const std::string& command, const boost::json::object& request, const answer& then);
  [[nodiscard]] boost::json::object status() const;
  [[nodiscard]] boost::json::object buffers() const;
  [[nodiscard]] boost::json::object clients() const;
  [[nodiscard]] boost::json::object drop(std::uint64_t client) const;
  void verify(const std::string& buffer, const answer& then);
  void reload(const std::string& republish, const answer& then) const;

  parts with_;
  bool verifying_ = false;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
};

}  // namespace gpurdma::daemon
