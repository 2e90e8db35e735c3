#include "daemon/client_connection.hpp"

#include <utility>

#include "daemon/event.hpp"
#include "rdma/error.hpp"

namespace gpurdma::daemon {

using clock = protocol::server_conversation::clock;

client_connection::client_connection(serving& with, std::shared_ptr<session> of, principal_domain_ptr domain,
                                     rdma::cm_id&& id)
    : session_{std::move(of)},
      domain_{std::move(domain)},
      conversation_{{.credits = credits,
                     .ping_interval = with.settings.keepalive_interval,
                     .silence_limit = with.settings.keepalive_timeout},
                    clock::now()},
      timer_{with.io},
      connection_{with.io, with.closers, domain_->device, *domain_->domain, std::move(id), server_connection_settings(),
                  *this} {}

std::error_code client_connection::accept(std::uint8_t reads_in, const protocol::welcome& greeting) {
  const auto why = connection_.accept(reads_in, protocol::encode(greeting));
  if (!why) {
    arm();
  }
  return why;
}

bool client_connection::tell(const protocol::notice& what) {
  if (connection_.room() <= 2 * credits) {
    return false;  // the rest is for answers: a client must not be dropped for the notices that it got
  }
  bool told = false;
  for (auto& action : conversation_.notify(what)) {
    if (const auto* const t = std::get_if<protocol::server_conversation::transmit>(&action)) {
      // A notice is a courtesy: where there is no room for it the client finds out by itself.
      told = !connection_.send(t->bytes);
    }
  }
  return told;
}

void client_connection::allow_remote_read(bool allowed) {
  // A client that cannot be stopped from reading gently is stopped all the same; one that cannot be allowed to would
  // find its first READ failing.
  if (const auto why = connection_.allow_remote_read(allowed); why && why != rdma::connection_error::closed) {
    close(why);
  }
}

void client_connection::close(std::error_code why) {
  note_end(why);
  connection_.close();
}

void client_connection::note_end(std::error_code why) {
  if (!end_reason_) {
    end_reason_ = why;
  }
}

void client_connection::on_established(std::span<const std::byte>) {
  emit(event_id::client_connected, {{"client", session_->number()},
                                    {"peer", session_->peer()},
                                    {"device", device().name()},
                                    {"qp", queue_pair()},
                                    {"connections", session_->connections()}});
  allow_remote_read(session_->may_read());
}

void client_connection::on_message(std::span<const std::byte> bytes) {
  act(conversation_.on_message(bytes, clock::now()));
}

void client_connection::on_read_done(std::uint32_t, std::error_code) {}  // a server reads nothing

void client_connection::on_failed(std::error_code why, std::span<const std::byte>) { note_end(why); }

void client_connection::on_closed(std::uint32_t lost) {
  if (lost != 0) {
    emit(event_id::work_requests_lost,
         {{"client", session_->number()}, {"device", device().name()}, {"qp", queue_pair()}, {"count", lost}});
  }
  timer_.cancel();
  const auto self = shared_from_this();
  const auto owner = session_;
  owner->remove(*this, end_reason_);
}

void client_connection::act(protocol::server_conversation::actions todo) {
  for (auto& action : todo) {
    std::visit([&](auto& a) { do_action(a); }, action);
  }
  arm();
}

void client_connection::do_action(protocol::server_conversation::transmit& action) {
  const auto why = connection_.send(action.bytes);
  if (why == std::errc::no_buffer_space) {
    close(make_error_code(protocol::errc::answers_not_taken));
  } else if (why && why != rdma::connection_error::closed) {
    close(why);
  }
}

void client_connection::do_action(protocol::server_conversation::serve& action) {
  session_->serve(domain_, action.request, [weak = weak_from_this(), id = action.request_id](protocol::body answer) {
    if (const auto self = weak.lock()) {
      self->act(self->conversation_.reply(id, std::move(answer)));
    }
  });
}

void client_connection::do_action(protocol::server_conversation::hang_up& action) {
  note_end(action.reason);
  if (action.reason == protocol::errc::peer_silent) {
    connection_.close();
  } else {
    connection_.close_after_sends();
  }
}

void client_connection::arm() {
  const auto due = conversation_.next_deadline();
  // Deadlines mostly move back, with every message: a timer that fires too early is armed again when it does.
  if (due == clock::time_point::max() || (armed_ && timer_.expiry() <= due)) {
    return;
  }
  armed_ = true;
  timer_.expires_at(due);
  timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
    const auto self = weak.lock();
    if (!error && self) {
      self->armed_ = false;
      self->act(self->conversation_.on_time(clock::now()));
    }
  });
}

}  // namespace gpurdma::daemon
