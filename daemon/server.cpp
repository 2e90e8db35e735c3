#include "daemon/server.hpp"

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <set>
#include <utility>

#include "daemon/client_connection.hpp"
#include "daemon/event.hpp"
#include "daemon/random.hpp"
#include "memory/staging.hpp"
#include "protocol/handshake.hpp"
#include "rdma/error.hpp"

namespace gpurdma::daemon {
namespace {

constexpr unsigned loading_threads = 2;

// Connections that a session may have; a reader wants one per queue pair and rail.
constexpr std::size_t connections_per_session = 16;

device_list list_devices() {
  device_list found{rdma_get_devices(nullptr), &rdma_free_devices};
  if (!found) {
    rdma::fail(rdma::last_error(), "cannot list the RDMA devices");
  }
  return found;
}

}  // namespace

server::server(boost::asio::io_context& io, config settings)
    : io_{io},
      settings_{std::move(settings)},
      loaders_{io, loading_threads},
      registrars_{io, 1},
      closers_{io, 1},
      signals_{io, SIGTERM, SIGINT, SIGUSR1},
      drain_deadline_{io},
      progress_timer_{io},
      incarnation_{std::bit_cast<std::uint64_t>(random_bytes<std::array<std::byte, 8>>())},
      channel_{io},
      contexts_{list_devices()},
      registrations_{registrars_, closers_, settings_.keys, give_up_loading_.get_token()},
      serving_{.io = io_, .closers = closers_, .settings = settings_, .pool = pool_, .registrations = registrations_},
      gpus_{io, [this](const memory::gpu& which, const std::string& why) { on_gpu_lost(which, why); }} {
  for (const auto& at : settings_.listen) {
    listeners_.push_back(std::make_unique<rdma::listener>(
        channel_, at, [this](rdma::cm_id id, const rdma::cm_event& event) { on_request(std::move(id), event); }));
  }
  add_devices();
}

server::~server() {
  loaders_.join();
  registrars_.join();
  closers_.join();
}

void server::add_devices() {
  const bool wildcard =
      std::any_of(listeners_.begin(), listeners_.end(), [](const auto& l) { return l->context() == nullptr; });
  if (wildcard) {
    for (ibv_context** next = contexts_.get(); next != nullptr && *next != nullptr; ++next) {
      add_device(**next);
    }
  }
  for (const auto& l : listeners_) {
    if (l->context() != nullptr) {
      add_device(*l->context());
    }
  }
  if (devices_.empty()) {
    rdma::fail(std::make_error_code(std::errc::no_such_device), "this machine has no RDMA device");
  }
}

void server::add_device(ibv_context& context) {
  if (devices_.contains(&context)) {
    return;
  }
  const std::string name = ibv_get_device_name(context.device);
  auto made = std::make_unique<rdma::device>(io_, context, [name](const ibv_async_event& event) {
    emit(event_id::device_event, {{"device", name}, {"event", ibv_event_type_str(event.event_type)}});
  });
  anonymous_domains_.emplace(
      &context,
      std::make_shared<principal_domain>(principal_domain{
          .device = *made, .principal = principal_id::anonymous, .domain = made->allocate_protection_domain()}));
  devices_.emplace(&context, std::move(made));
}

void server::start() {
  emit(event_id::server_starting, {{"devices", devices_.size()},
                                   {"buffers", settings_.buffers.size()},
                                   {"open", "every client that reaches this server may read its buffers"}});
  wait_for_signal();
  load_buffers();
}

void server::load_buffers() {
  steps_left_ = settings_.buffers.size();
  report_progress();
  for (const auto& wanted : settings_.buffers) {
    auto made = std::make_shared<buffer_version_ptr>();
    auto progress = std::make_shared<std::atomic<std::uint64_t>>(0);
    loading_.emplace(wanted.name, progress);
    loaders_.run([&wanted, made, stop = give_up_loading_.get_token(),
                  progress] { *made = load_version(wanted, 1, stop, [&](std::uint64_t done) { *progress = done; }); },
                 [this, &wanted, made](const std::exception_ptr& error) {
                   --steps_left_;
                   loading_.erase(wanted.name);
                   if (error) {
                     fail_start("buffer " + wanted.name + ": " + rdma::describe(error));
                   } else if (phase_ == phase::starting) {
                     emit(event_id::buffer_loaded, {{"buffer", wanted.name},
                                                    {"version", (*made)->version},
                                                    {"bytes", wanted.size},
                                                    {"blocks", (*made)->checksums.blocks.size()}});
                     pool_.publish(std::move(*made));
                   }
                   if (steps_left_ == 0) {
                     register_buffers();
                   }
                 });
  }
}

void server::report_progress() {
  constexpr std::chrono::seconds interval{10};
  progress_timer_.expires_after(interval);
  progress_timer_.async_wait([this](const boost::system::error_code& error) {
    if (error || loading_.empty()) {
      return;
    }
    for (const auto& wanted : settings_.buffers) {
      const auto found = loading_.find(wanted.name);
      if (const auto done = found == loading_.end() ? 0 : found->second->load(); done != 0) {
        emit(event_id::buffer_loading, {{"buffer", wanted.name}, {"bytes_done", done}, {"bytes", wanted.size}});
      }
    }
    report_progress();
  });
}

void server::register_buffers() {
  progress_timer_.cancel();
  memory::staging().trim();
  if (phase_ != phase::starting) {
    return;
  }
  const auto buffers = pool_.all();
  steps_left_ = settings_.keys == isolation::principal ? buffers.size() * anonymous_domains_.size() : 0;
  if (steps_left_ == 0) {
    become_ready();
    return;
  }
  for (const auto& entry : anonymous_domains_) {
    const auto& domain = entry.second;
    for (const auto& version : buffers) {
      registrations_.acquire(domain, version, [this, domain, version](const registration_ptr& made, const auto& error) {
        --steps_left_;
        if (error) {
          fail_start("buffer " + version->name + ": " + rdma::describe(error));
        } else {
          emit(made->staged() ? event_id::buffer_staged : event_id::buffer_registered,
               {{"buffer", version->name},
                {"device", domain->device.name()},
                {"path", made->path()},
                {"why", made->why()}});
        }
        if (steps_left_ == 0) {
          become_ready();
        }
      });
    }
  }
}

void server::become_ready() {
  if (phase_ != phase::starting) {
    return;
  }
  try {
    for (const auto& l : listeners_) {
      l->listen();
    }
  } catch (const std::system_error& e) {
    fail_start(e.what());
    return;
  }
  phase_ = phase::serving;
  watch_gpus();
  std::string addresses;
  for (const auto& l : listeners_) {
    addresses += (addresses.empty() ? "" : ",") + l->address().to_string();
  }
  std::string devices;
  for (const auto& [context, device] : devices_) {
    devices += (devices.empty() ? "" : ",") + device->name();
  }
  emit(event_id::server_ready, {{"listen", addresses}, {"devices", devices}, {"buffers", pool_.all().size()}});
}

void server::watch_gpus() {
  std::vector<memory::gpu_ptr> gpus;
  for (const auto& version : pool_.all()) {
    if (version->gpu && std::find(gpus.begin(), gpus.end(), version->gpu) == gpus.end()) {
      gpus.push_back(version->gpu);
      gpus_.add(version->gpu);
    }
  }
  std::vector<std::string> devices;
  for (const auto& [context, device] : devices_) {
    devices.push_back(device->name());
  }
  report_placement(gpus, devices);
}

void server::on_gpu_lost(const memory::gpu& which, const std::string& why) {
  emit(event_id::gpu_lost, {{"gpu", which.info().label()}, {"why", why}});
  pool_.withdraw(which, why);
  auto revoked = std::make_shared<std::vector<std::pair<std::weak_ptr<session>, std::vector<std::uint64_t>>>>();
  for (const auto& [token, s] : std::map{sessions_}) {
    revoked->emplace_back(s, s->revoke(which));
  }
  registrations_.retire(which);
  // After what retire() has the closers do, so that clients are told when the keys are dead.
  closers_.run([] {},
               [revoked, why](const std::exception_ptr&) {
                 for (const auto& [weak, leases] : *revoked) {
                   if (const auto s = weak.lock()) {
                     s->tell_revoked(leases, why);
                   }
                 }
               });
}

void server::fail_start(const std::string& why) {
  if (phase_ != phase::starting) {
    return;
  }
  failed_ = true;
  emit(event_id::start_failed, {{"why", why}});
  stop();
}

void server::wait_for_signal() {
  signals_.async_wait([this](const boost::system::error_code& error, int signal) {
    if (error) {
      return;
    }
    if (signal == SIGUSR1) {
      verify_buffers();
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
  emit(event_id::server_stopping, {{"clients", sessions_.size()}});
  listeners_.clear();
  for (const auto& [token, s] : std::map{sessions_}) {
    s->shut_down();
  }
  drain_deadline_.expires_after(settings_.drain_timeout);
  drain_deadline_.async_wait([this](const boost::system::error_code&) {
    // Due or hurried by a second signal; either way the clients have had their time.
    for (const auto& [token, s] : std::map{sessions_}) {
      s->drop(make_error_code(protocol::errc::shutting_down));
    }
  });
  end_if_empty();
}

void server::end_if_empty() {
  if (phase_ != phase::stopping || !sessions_.empty()) {
    return;
  }
  phase_ = phase::ending;
  // From here on nothing is started; the reactor returns when the last of this is done.
  drain_deadline_.cancel();
  progress_timer_.cancel();
  gpus_.stop();
  signals_.cancel();
  signals_.clear();  // should a worker be stuck, a further signal ends the process
  registrations_.clear();
  pool_.clear();
  channel_.close();
  for (const auto& [context, device] : devices_) {
    device->close();
  }
}

protocol::welcome server::greeting(const session& s) const {
  return {.incarnation = incarnation_,
          .session = s.token(),
          .server_nonce = random_bytes<protocol::nonce>(),
          .credits = credits,
          .silence_limit_ms = static_cast<std::uint32_t>(settings_.keepalive_timeout.count())};
}

std::shared_ptr<session> server::admit(const protocol::hello& hello, const std::string& peer,
                                       protocol::refusal& refused) {
  const auto refuse = [&](protocol::errc code, std::string sentence) {
    refused.code = code;
    refused.sentence = std::move(sentence);
    return nullptr;
  };
  if (protocol::check_versions(hello)) {
    return refuse(protocol::errc::no_common_version, "this server speaks version " + std::to_string(protocol::version) +
                                                         ", the client " + std::to_string(hello.lowest_version) +
                                                         " to " + std::to_string(hello.highest_version));
  }
  if (phase_ != phase::serving) {
    return refuse(protocol::errc::shutting_down, "the server is shutting down");
  }
  if (hello.session != protocol::no_session) {
    const auto found = sessions_.find(hello.session);
    if (found == sessions_.end()) {
      return refuse(protocol::errc::unknown_session, "the server knows no session with this token");
    }
    if (found->second->connections() >= connections_per_session) {
      return refuse(protocol::errc::too_many_connections,
                    "a session may have " + std::to_string(connections_per_session) + " connections");
    }
    return found->second;
  }
  if (sessions_.size() >= settings_.max_clients) {
    return refuse(protocol::errc::too_many_clients,
                  "the limit of " + std::to_string(settings_.max_clients) + " clients is reached (limits: clients)");
  }
  return std::make_shared<session>(serving_, ++last_client_, random_bytes<protocol::session_token>(),
                                   principal_id::anonymous, peer, [this](session& ended) {
                                     sessions_.erase(ended.token());
                                     end_if_empty();
                                   });
}

void server::on_request(rdma::cm_id id, const rdma::cm_event& event) {
  const auto peer = rdma::peer_of(*id).to_string();
  protocol::refusal refused;
  const auto refuse = [&](const std::string& detail) {
    emit(event_id::client_refused, {{"peer", peer}, {"code", protocol::name_of(refused.code)}, {"why", detail}});
    rdma::reject(*id, protocol::encode(refused));
  };
  const auto hello = protocol::decode_hello(event.private_data());
  if (!hello) {
    refused.code = static_cast<protocol::errc>(hello.error().value());
    refused.sentence = hello.error().message();
    refuse(refused.sentence);
    return;
  }
  const auto owner = admit(*hello, peer, refused);
  if (!owner) {
    refuse(refused.sentence);
    return;
  }
  refused.code = protocol::errc::out_of_resources;
  refused.sentence = "the server or its adapter is out of resources; its log says of which";
  const auto domain = anonymous_domains_.find(id->verbs);
  if (domain == anonymous_domains_.end()) {
    refuse("the device of this address came after the server's start; restart the server");
    return;
  }
  std::shared_ptr<client_connection> made;
  const auto welcome = greeting(*owner);
  try {
    made = std::make_shared<client_connection>(serving_, owner, domain->second, std::move(id));
  } catch (const std::exception& e) {
    refuse(e.what());
    return;
  }
  owner->add(made);
  sessions_.emplace(owner->token(), owner);
  const auto reads = std::min(event.responder_resources, domain->second->device.limits().reads_in);
  if (const auto why = made->accept(reads, welcome)) {
    made->close(why);
  }
}

void server::note_gpu_error(const buffer_version& of, const std::exception_ptr& error) {
  try {
    if (error && of.gpu) {
      std::rethrow_exception(error);
    }
  } catch (const std::system_error& e) {
    if (memory::is_gpu_lost(e.code())) {
      gpus_.report(*of.gpu, e.what());
    }
  }
}

void server::verify_buffers() {
  if (phase_ != phase::serving) {
    return;
  }
  for (const auto& version : pool_.all()) {
    auto bad = std::make_shared<std::optional<std::size_t>>();
    loaders_.run([version, bad, stop = give_up_loading_.get_token()] { *bad = find_bad_block(*version, stop); },
                 [this, version, bad](const std::exception_ptr& error) {
                   if (give_up_loading_.stop_requested()) {
                     return;  // the check was given up, which says nothing of the buffer
                   }
                   note_gpu_error(*version, error);
                   if (error || *bad) {
                     emit(event_id::buffer_damaged,
                          {{"buffer", version->name},
                           {"why", error ? rdma::describe(error) : "block " + std::to_string(**bad) + " is WRONG"}});
                   } else {
                     emit(event_id::buffer_verified,
                          {{"buffer", version->name}, {"bytes", version->memory->size()}, {"result", "data OK"}});
                   }
                 });
  }
}

}  // namespace gpurdma::daemon
