#include "daemon/acceptor.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "daemon/client_connection.hpp"
#include "daemon/event.hpp"
#include "daemon/random.hpp"
#include "rdma/error.hpp"

namespace gpurdma::daemon {
namespace {

// Connections that a session may have; a reader wants one per queue pair and rail.
constexpr std::size_t connections_per_session = 16;

void refuse(rdma_cm_id& id, const protocol::refusal& refused, const std::string& detail) {
  emit(event_id::client_refused,
       {{"peer", rdma::peer_of(id).to_string()}, {"code", protocol::name_of(refused.code)}, {"why", detail}});
  rdma::reject(id, protocol::encode(refused));
}

}  // namespace

acceptor::acceptor(serving& with, rdma::cm_event_channel& channel, device_set& devices,
                   std::function<void()> on_session_end)
    : with_{with},
      devices_{devices},
      on_session_end_{std::move(on_session_end)},
      incarnation_{std::bit_cast<std::uint64_t>(random_bytes<std::array<std::byte, 8>>())} {
  for (const auto& at : with.settings.listen) {
    listeners_.push_back(std::make_unique<rdma::listener>(
        channel, at, [this](rdma::cm_id id, const rdma::cm_event& event) { on_request(std::move(id), event); }));
  }
}

acceptor::~acceptor() = default;

void acceptor::add_devices() {
  for (const auto& l : listeners_) {
    if (l->context() == nullptr) {
      devices_.add_all();
    } else {
      devices_.add(*l->context());
    }
  }
  if (devices_.empty()) {
    rdma::fail(std::make_error_code(std::errc::no_such_device), "this machine has no RDMA device");
  }
}

void acceptor::listen() {
  for (const auto& l : listeners_) {
    l->listen();
  }
}

std::vector<std::string> acceptor::addresses() const {
  std::vector<std::string> all;
  for (const auto& l : listeners_) {
    all.push_back(l->address().to_string());
  }
  return all;
}

std::vector<std::shared_ptr<session>> acceptor::sessions() const {
  std::vector<std::shared_ptr<session>> all;
  all.reserve(sessions_.size());
  for (const auto& [token, s] : sessions_) {
    all.push_back(s);
  }
  return all;
}

protocol::welcome acceptor::greeting(const session& s) const {
  return {.incarnation = incarnation_,
          .session = s.token(),
          .server_nonce = random_bytes<protocol::nonce>(),
          .credits = credits,
          .silence_limit_ms = static_cast<std::uint32_t>(with_.settings.keepalive_timeout.count())};
}

std::shared_ptr<session> acceptor::admit(const protocol::hello& hello, const std::string& peer,
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
  if (with_.shutting_down) {
    return refuse(protocol::errc::shutting_down, "the server is shutting down");
  }
  if (hello.session != protocol::no_session) {
    const auto found = sessions_.find(hello.session);
    if (found == sessions_.end()) {
      return refuse(protocol::errc::unknown_session, "the server knows no session with this token");
    }
    if (found->second->leaving()) {
      return refuse(protocol::errc::dropped_by_operator, "an operator dropped this client");
    }
    if (found->second->connections() >= connections_per_session) {
      return refuse(protocol::errc::too_many_connections,
                    "a session may have " + std::to_string(connections_per_session) + " connections");
    }
    return found->second;
  }
  const auto most = with_.settings.max_clients;
  if (sessions_.size() >= most) {
    return refuse(protocol::errc::too_many_clients,
                  "the limit of " + std::to_string(most) + " clients is reached (limits: clients)");
  }
  return std::make_shared<session>(with_, ++last_client_, random_bytes<protocol::session_token>(),
                                   principal_id::anonymous, peer, [this](session& ended) {
                                     sessions_.erase(ended.token());
                                     with_.changed();
                                     on_session_end_();
                                   });
}

void acceptor::on_request(rdma::cm_id id, const rdma::cm_event& event) {
  protocol::refusal refused;
  const auto hello = protocol::decode_hello(event.private_data());
  if (!hello) {
    refused.code = static_cast<protocol::errc>(hello.error().value());
    refused.sentence = hello.error().message();
    refuse(*id, refused, refused.sentence);
    return;
  }
  if (const auto owner = admit(*hello, rdma::peer_of(*id).to_string(), refused)) {
    connect(std::move(id), event, owner);
  } else {
    refuse(*id, refused, refused.sentence);
  }
}

void acceptor::connect(rdma::cm_id id, const rdma::cm_event& event, const std::shared_ptr<session>& owner) {
  std::shared_ptr<client_connection> made;
  std::uint8_t most_reads = 0;
  const auto welcome = greeting(*owner);
  try {
    // A wildcard listener also hears of devices that came after the start.
    const auto domain = devices_.add(*id->verbs);
    most_reads = domain->device.limits().reads_in;
    made = std::make_shared<client_connection>(with_, owner, domain, std::move(id));
  } catch (const std::exception& e) {
    protocol::refusal refused;
    refused.code = protocol::errc::out_of_resources;
    refused.sentence = "the server or its adapter is out of resources; its log says of which";
    refuse(*id, refused, e.what());
    return;
  }
  owner->add(made);
  sessions_.emplace(owner->token(), owner);
  with_.changed();
  if (const auto why = made->accept(std::min(event.responder_resources, most_reads), welcome)) {
    made->close(why);
  }
}

}  // namespace gpurdma::daemon
