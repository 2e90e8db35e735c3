#include "daemon/session.hpp"

#include <algorithm>
#include <utility>

#include "daemon/client_connection.hpp"
#include "daemon/event.hpp"
#include "rdma/error.hpp"

namespace gpurdma::daemon {

session::session(serving& with, std::uint64_t number, protocol::session_token token, principal_id principal,
                 std::string peer, ended on_end)
    : with_{with},
      number_{number},
      token_{token},
      principal_{principal},
      peer_{std::move(peer)},
      on_end_{std::move(on_end)},
      expiry_{with.io} {}

session::~session() = default;

void session::serve(const principal_domain_ptr& domain, const protocol::body& request, answer then) {
  if (const auto* const o = std::get_if<protocol::open>(&request)) {
    open(domain, *o, std::move(then));
  } else if (const auto* const c = std::get_if<protocol::get_checksums>(&request)) {
    get_checksums(*c, then);
  } else if (const auto* const n = std::get_if<protocol::renew>(&request)) {
    renew(*n, then);
  } else if (const auto* const r = std::get_if<protocol::release>(&request)) {
    release(*r, std::move(then));
  } else if (const auto* const l = std::get_if<protocol::list>(&request)) {
    list(*l, then);
  } else {
    refuse(protocol::errc::unexpected_message, "this is no request", then);
  }
}

void session::refuse(protocol::errc code, std::string sentence, const answer& then) const {
  emit(event_id::request_refused,
       {{"client", number_}, {"peer", peer_}, {"code", protocol::name_of(code)}, {"why", sentence}});
  then(protocol::error{code, std::move(sentence)});
}

void session::refuse_leaving(const answer& then) const {
  if (with_.shutting_down) {
    refuse(protocol::errc::shutting_down, "the server is shutting down", then);
  } else {
    refuse(protocol::errc::dropped_by_operator, "an operator dropped this client", then);
  }
}

void session::refuse_unserved(const std::string& name, const answer& then) const {
  if (const auto why = with_.pool.why_withdrawn(name); !why.empty()) {
    refuse(protocol::errc::buffer_unavailable, "buffer '" + name + "' is out of service: " + why, then);
  } else {
    refuse(protocol::errc::unknown_buffer, "there is no buffer '" + name + "'", then);
  }
}

void session::open(const principal_domain_ptr& domain, const protocol::open& request, answer then) {
  if (with_.shutting_down || leaving_) {
    refuse_leaving(then);
    return;
  }
  const auto version = with_.pool.find(request.name);
  if (!version) {
    refuse_unserved(request.name, then);
    return;
  }
  const std::uint64_t size = version->memory->size();
  auto asked = request;
  if (asked.length == protocol::to_the_end && asked.offset < size) {
    asked.length = size - asked.offset;
  }
  if (!is_range_of(asked.offset, asked.length, size)) {
    refuse(protocol::errc::range_outside_buffer,
           "buffer '" + request.name + "' has " + std::to_string(size) + " bytes; asked were " +
               std::to_string(asked.length) + " from " + std::to_string(asked.offset) + " on",
           then);
    return;
  }
  if (leases_.size() + opening_ >= with_.settings.leases_per_client) {
    refuse(protocol::errc::too_many_leases,
           "a client may hold " + std::to_string(with_.settings.leases_per_client) + " leases", then);
    return;
  }
  ++opening_;
  with_.registrations.acquire(domain, version,
                              [weak = weak_from_this(), &registrations = with_.registrations, asked,
                               then = std::move(then)](registration_ptr made, const std::exception_ptr& error) {
                                if (const auto self = weak.lock()) {
                                  self->on_registered(asked, std::move(made), error, then);
                                } else if (made) {
                                  registrations.release(std::move(made), [] {});
                                }
                              });
}

void session::on_registered(const protocol::open& request, registration_ptr made, const std::exception_ptr& error,
                            const answer& then) {
  --opening_;
  if (error) {
    refuse(protocol::errc::out_of_resources, rdma::describe(error), then);
  } else if (leaving_ || connections_.empty()) {
    with_.registrations.release(std::move(made), [] {});
    refuse_leaving(then);
  } else if (!may_be_lent(made->version())) {
    const auto name = made->version().name;
    with_.registrations.release(std::move(made), [] {});
    refuse_unserved(name, then);
  } else {
    grant(request, std::move(made), then);
  }
  leave_if_done();
}

bool session::may_be_lent(const buffer_version& which) const {
  return with_.pool.find(which.name).get() == &which || with_.pool.retired(which) != nullptr;
}

lease::clock::time_point session::end_of_lease(const buffer_version& of) const {
  const auto usual = lease::clock::now() + with_.settings.lease_duration;
  const auto* const retired = with_.pool.retired(of);
  return retired == nullptr ? usual : std::min(usual, retired->until);
}

void session::grant(const protocol::open& request, registration_ptr r, const answer& then) {
  const auto& version = r->version();
  const auto expires = end_of_lease(version);
  lease given{.id = ++with_.last_lease,
              .registration = std::move(r),
              .offset = request.offset,
              .length = request.length,
              .expires = expires};
  const protocol::lease told{.id = given.id,
                             .address = given.registration->address() + given.offset,
                             .length = given.length,
                             .buffer_size = version.memory->size(),
                             .version = version.version,
                             .rkey = given.registration->rkey(),
                             .duration_ms = milliseconds_until(expires),
                             .block_size = memory::checksum_block_size,
                             .staged = given.registration->staged(),
                             .content = version.digest};
  emit(event_id::lease_granted, {{"client", number_},
                                 {"lease", given.id},
                                 {"buffer", version.name},
                                 {"version", version.version},
                                 {"offset", given.offset},
                                 {"length", given.length}});
  ++leases_granted_;
  ++with_.leases;
  with_.changed();
  leases_.emplace(given.id, std::move(given));
  if (leases_.size() == 1) {
    update_access();
  }
  arm_expiry();
  then(told);
}

void session::get_checksums(const protocol::get_checksums& request, const answer& then) const {
  const auto found = leases_.find(request.lease_id);
  if (found == leases_.end()) {
    refuse(protocol::errc::unknown_lease, "no lease " + std::to_string(request.lease_id), then);
    return;
  }
  const auto& blocks = found->second.registration->version().checksums.blocks;
  if (!is_range_of(request.first_block, request.count, blocks.size())) {
    refuse(protocol::errc::range_outside_buffer, "the buffer has " + std::to_string(blocks.size()) + " blocks", then);
    return;
  }
  const auto first = blocks.begin() + static_cast<std::ptrdiff_t>(request.first_block);
  then(protocol::checksums{request.first_block, {first, first + request.count}});
}

void session::renew(const protocol::renew& request, const answer& then) {
  const auto found = leases_.find(request.lease_id);
  if (found == leases_.end()) {
    refuse(protocol::errc::unknown_lease, "no lease " + std::to_string(request.lease_id), then);
    return;
  }
  const auto expires = end_of_lease(found->second.registration->version());
  const auto left = milliseconds_until(expires);
  if (left == 0) {
    refuse(protocol::errc::version_replaced, "the version of the buffer was replaced, and the grace time is over",
           then);
    return;
  }
  found->second.expires = expires;
  arm_expiry();
  then(protocol::renewed{request.lease_id, left});
}

void session::release(const protocol::release& request, answer then) {
  const auto found = leases_.find(request.lease_id);
  if (found == leases_.end()) {
    refuse(protocol::errc::unknown_lease, "no lease " + std::to_string(request.lease_id), then);
    return;
  }
  bytes_read_ += request.bytes_read;
  ++releasing_;
  end_lease(found, "released", [weak = weak_from_this(), then = std::move(then), id = request.lease_id] {
    then(protocol::released{id});
    if (const auto self = weak.lock()) {
      --self->releasing_;
      self->leave_if_done();
    }
  });
}

void session::list(const protocol::list& request, const answer& then) const {
  protocol::listing page;
  const auto found = with_.pool.list(request.after, protocol::max_buffers_in_listing + 1);
  page.more = found.size() > protocol::max_buffers_in_listing;
  for (const auto& version : found) {
    if (page.entries.size() < protocol::max_buffers_in_listing) {
      page.entries.push_back({version->name, version->memory->size(), version->version, version->staged()});
    }
  }
  then(std::move(page));
}

void session::end_lease(std::map<std::uint64_t, lease>::iterator which, std::string_view why,
                        std::function<void()> then) {
  emit(event_id::lease_ended, {{"client", number_},
                               {"lease", which->first},
                               {"buffer", which->second.registration->version().name},
                               {"why", why}});
  auto key = std::move(which->second.registration);
  leases_.erase(which);
  --with_.leases;
  with_.changed();
  if (leases_.empty()) {
    // With a key that others share, this is what ends the client's reading.
    update_access();
  }
  with_.registrations.release(std::move(key), std::move(then));
}

void session::end_expired() {
  const auto now = lease::clock::now();
  for (auto next = leases_.begin(); next != leases_.end();) {
    const auto current = next++;
    if (current->second.expires <= now) {
      const auto id = current->first;
      const auto* const retired = with_.pool.retired(current->second.registration->version());
      const bool grace_over = retired != nullptr && retired->until <= now;
      // Told once the key is dead, as a release is answered.
      end_lease(current, grace_over ? "grace over" : "expired", [weak = weak_from_this(), id, grace_over] {
        if (const auto self = weak.lock()) {
          self->tell({.kind = protocol::notice_kind::lease_revoked,
                      .code = grace_over ? protocol::errc::version_replaced : protocol::errc::lease_expired,
                      .lease_id = id,
                      .sentence = grace_over ? "the version of the buffer was replaced, and the grace time is over"
                                             : "the lease was not renewed in time"});
        }
      });
    }
  }
  arm_expiry();
  leave_if_done();
}

void session::arm_expiry() {
  const auto first = std::min_element(leases_.begin(), leases_.end(),
                                      [](const auto& a, const auto& b) { return a.second.expires < b.second.expires; });
  if (first == leases_.end()) {
    expiry_.cancel();
    return;
  }
  expiry_.expires_at(first->second.expires);
  expiry_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) {
      self->end_expired();
    }
  });
}

void session::update_access() {
  for (const auto& c : connections_) {
    c->allow_remote_read(may_read());
  }
}

void session::tell(const protocol::notice& what) {
  // Once is enough, on whichever connection takes it.
  for (const auto& c : std::vector{connections_}) {
    if (c->tell(what)) {
      return;
    }
  }
}

void session::add(const std::shared_ptr<client_connection>& c) { connections_.push_back(c); }

void session::remove(client_connection& c, std::error_code why) {
  const auto self = shared_from_this();
  std::erase_if(connections_, [&](const auto& mine) { return mine.get() == &c; });
  if (!connections_.empty()) {
    return;
  }
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since_).count();
  const bool left = why == rdma::connection_error::disconnected || !why;
  const bool dropped = why.category() == protocol::protocol_category();
  emit(dropped ? event_id::client_dropped
       : left  ? event_id::client_left
               : event_id::client_lost,
       {{"client", number_},
        {"peer", peer_},
        {"why", why ? why.message() : std::string{"closed"}},
        {"leases_held", leases_.size()},
        {"leases_granted", leases_granted_},
        {"bytes_read", bytes_read_},
        {"seconds", seconds}});
  while (!leases_.empty()) {
    end_lease(leases_.begin(), "client gone", [] {});
  }
  expiry_.cancel();
  on_end_(*this);
}

void session::shut_down() {
  leaving_ = true;
  tell({.kind = protocol::notice_kind::shutting_down,
        .code = protocol::errc::shutting_down,
        .lease_id = 0,
        .sentence = "the server is shutting down: release your leases"});
  leave_if_done();
}

void session::leave_if_done() {
  if (leaving_ && leases_.empty() && opening_ == 0 && releasing_ == 0) {
    for (const auto& c : std::vector{connections_}) {
      c->close_after_sends();
    }
  }
}

void session::drop(std::error_code why) {
  // A copy, for closing may remove.
  for (const auto& c : std::vector{connections_}) {
    c->close(why);
  }
}

}  // namespace gpurdma::daemon
