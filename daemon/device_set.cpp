#include "daemon/device_set.hpp"

#include <boost/asio/post.hpp>
#include <utility>

#include "daemon/event.hpp"
#include "rdma/error.hpp"

namespace gpurdma::daemon {

namespace {

device_list list_devices() {
  device_list found{rdma_get_devices(nullptr), &rdma_free_devices};
  if (!found) {
    rdma::fail(rdma::last_error(), "cannot list the RDMA devices");
  }
  return found;
}

}  // namespace

device_set::device_set(boost::asio::io_context& io, rdma::cm_event_channel& channel, lost_handler on_lost)
    : io_{io}, channel_{channel}, on_lost_{std::move(on_lost)}, contexts_{list_devices()} {}

device_set::~device_set() { *alive_ = false; }

void device_set::add_all() {
  for (ibv_context** next = contexts_.get(); next != nullptr && *next != nullptr; ++next) {
    add(**next);
  }
}

principal_domain_ptr device_set::add(ibv_context& context) {
  if (const auto found = devices_.find(&context); found != devices_.end()) {
    return found->second.domain;
  }
  const std::string name = ibv_get_device_name(context.device);
  entry made;
  made.device = std::make_unique<rdma::device>(
      io_, context, [this, &context, name](const ibv_async_event& event) { on_async_event(context, name, event); });
  made.domain =
      std::make_shared<principal_domain>(principal_domain{.device = *made.device,
                                                          .principal = principal_id::anonymous,
                                                          .domain = made.device->allocate_protection_domain()});
  // The watch, and the caller of an event's handler, must not go while they call.
  made.watch = std::make_unique<rdma::removal_watch>(channel_, context, made.device->limits().ports,
                                                     [this, &context, alive = alive_] {
                                                       boost::asio::post(io_, [this, &context, alive] {
                                                         if (*alive) {
                                                           lose(context);
                                                         }
                                                       });
                                                     });
  emit(event_id::device_added,
       {{"device", name}, {"removal_is_seen", made.watch->watches() ? "by address" : "by event"}});
  return devices_.emplace(&context, std::move(made)).first->second.domain;
}

void device_set::on_async_event(ibv_context& context, const std::string& name, const ibv_async_event& event) {
  emit(event_id::device_event, {{"device", name}, {"event", ibv_event_type_str(event.event_type)}});
  if (event.event_type == IBV_EVENT_DEVICE_FATAL) {
    boost::asio::post(io_, [this, &context, alive = alive_] {
      if (*alive) {
        lose(context);
      }
    });
  }
}

void device_set::lose(ibv_context& context) {
  const auto found = devices_.find(&context);
  if (found == devices_.end()) {
    return;  // told twice
  }
  const auto name = found->second.device->name();
  found->second.watch.reset();
  lost_.push_back(std::move(found->second));
  devices_.erase(found);
  emit(event_id::device_lost, {{"device", name}, {"devices_left", devices_.size()}});
  on_lost_(name, lost_.back().domain);
}

std::vector<principal_domain_ptr> device_set::domains() const {
  std::vector<principal_domain_ptr> all;
  for (const auto& [context, e] : devices_) {
    all.push_back(e.domain);
  }
  return all;
}

std::vector<std::string> device_set::names() const {
  std::vector<std::string> all;
  for (const auto& [context, e] : devices_) {
    all.push_back(e.device->name());
  }
  return all;
}

void device_set::close() {
  for (const auto& [context, e] : devices_) {
    e.device->close();
  }
  for (const auto& e : lost_) {
    e.device->close();
  }
}

}  // namespace gpurdma::daemon
