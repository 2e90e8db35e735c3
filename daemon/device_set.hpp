#pragma once

// The RDMA devices that the server uses, with the anonymous principal's protection domain on each.

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/registration_cache.hpp"
#include "rdma/cm_event_channel.hpp"
#include "rdma/device.hpp"
#include "rdma/removal_watch.hpp"

namespace gpurdma::daemon {

using device_list = std::unique_ptr<ibv_context*, void (*)(ibv_context**)>;

class device_set {
 public:
  /// Told after the device was taken out of the set, with its domain; from the reactor.
  using lost_handler = std::function<void(const std::string& name, const principal_domain_ptr& domain)>;

  device_set(boost::asio::io_context& io, rdma::cm_event_channel& channel, lost_handler on_lost);
  device_set(const device_set&) = delete;
  device_set& operator=(const device_set&) = delete;
  ~device_set();

  /// Every device of the machine. Throws std::system_error.
  void add_all();
  /// The domain on the device of `context`, which is added where it is new. Throws std::system_error.
  principal_domain_ptr add(ibv_context& context);

  [[nodiscard]] std::vector<principal_domain_ptr> domains() const;
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool empty() const noexcept { return devices_.empty(); }

  /// Waits for nothing any more.
  void close();

 private:
  struct entry {
    std::unique_ptr<rdma::device> device;
    principal_domain_ptr domain;
    std::unique_ptr<rdma::removal_watch> watch;
  };
  void on_async_event(ibv_context& context, const std::string& name, const ibv_async_event& event);
  void lose(ibv_context& context);

  boost::asio::io_context& io_;
  rdma::cm_event_channel& channel_;
  lost_handler on_lost_;
  device_list contexts_;  ///< librdmacm closes none of them meanwhile
  std::map<ibv_context*, entry> devices_;
  std::vector<entry> lost_;  ///< kept for connections that still drain
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace gpurdma::daemon
