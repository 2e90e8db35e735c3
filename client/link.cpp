#include "client/link.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "rdma/error.hpp"

namespace gpurdma::client {
namespace {

using clock = std::chrono::steady_clock;

/// Requests that this client has unanswered at once, if the server grants as many.
constexpr std::uint16_t most_credits = 8;

int as_int(std::chrono::milliseconds duration) { return static_cast<int>(duration.count()); }

rdma::connection_settings connection_settings(std::uint32_t reads) {
  // RECVs for the answers, a ping and some notices; SENDs for the requests and pongs.
  return {.receives = most_credits + 4,
          .receive_size = protocol::max_reply_size,
          .sends = most_credits + 4,
          .send_size = protocol::max_request_size,
          .queued_sends = most_credits,
          .reads = reads};
}

}  // namespace

std::string sentence_of(const protocol::error& e) {
  return e.sentence + " (" + std::string{protocol::name_of(e.code)} + ")";
}

link::link(boost::asio::io_context& io, rdma::workers& closers, settings s, link_handler& handler)
    : io_{io}, closers_{closers}, settings_{s}, handler_{handler}, channel_{io}, timer_{io} {}

link::~link() = default;

std::string link::peer() const {
  return next_address_ == 0 ? std::string{} : addresses_.at(next_address_ - 1).to_string();
}

std::optional<failure> link::read(std::uint32_t tag, std::uint64_t local, std::uint32_t lkey,
                                  const protocol::lease& from, std::uint64_t offset, std::uint32_t length) {
  if (const auto why = connection_->read(tag, local, lkey, from.address + offset, from.rkey, length)) {
    return failure{exit_status::transfer_failed, "cannot post a READ: " + why.message()};
  }
  return std::nullopt;
}

std::uint32_t link::longest_read(std::uint32_t wanted, const protocol::lease& of) const {
  const std::uint64_t longest = device_->max_message_size(connection_->port());
  return static_cast<std::uint32_t>(std::min({std::uint64_t{wanted}, longest, of.length}));
}

void link::connect(std::vector<rdma::endpoint> addresses) {
  addresses_ = std::move(addresses);
  try_next();
}

void link::try_next() {
  if (next_address_ == addresses_.size()) {
    lose({attempts_status_, "cannot connect: " + attempts_});
    return;
  }
  const auto& at = addresses_.at(next_address_++);
  try {
    resolving_ = channel_.create_id(*this);
  } catch (const std::system_error& e) {
    lose({exit_status::cannot_connect, e.what()});
    return;
  }
  arm(clock::now() + settings_.timeout);
  if (const auto why =
          rdma::check_errno(rdma_resolve_addr(resolving_.get(), nullptr, at.native(), as_int(settings_.timeout)))) {
    give_up_address(why.message());
  }
}

void link::give_up_address(const std::string& why, exit_status status) {
  attempts_ += (attempts_.empty() ? "" : "; ") + peer() + ": " + why;
  attempts_status_ = status;
  resolving_.reset();
  if (connection_) {
    retry_because_ = why;
    connection_->close();
  } else {
    try_next();
  }
}

void link::on_cm_event(const rdma::cm_event& event) {
  if (closing_) {
    return;
  }
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      arm_step();
      if (const auto why = rdma::check_errno(rdma_resolve_route(resolving_.get(), as_int(settings_.timeout)))) {
        give_up_address(why.message());
      }
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      make_connection();
      break;
    case RDMA_CM_EVENT_ADDR_ERROR:
      give_up_address(make_error_code(rdma::connection_error::address_not_resolved).message() +
                      " (is the host up, and the route to it over an RDMA device?)");
      break;
    case RDMA_CM_EVENT_ROUTE_ERROR:
      give_up_address(make_error_code(rdma::connection_error::route_not_resolved).message());
      break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      give_up_address(make_error_code(rdma::connection_error::device_removed).message());
      break;
    default:
      break;
  }
}

void link::arm_step() {
  // Longer than the CM's own limit, which comes with a reason.
  constexpr std::chrono::milliseconds margin{500};
  arm(clock::now() + settings_.timeout + margin);
}

void link::make_connection() {
  arm_step();
  try {
    // Those of an earlier attempt may be another device's.
    domain_.reset();
    device_.reset();
    device_ = std::make_unique<rdma::device>(io_, *resolving_->verbs, [](const ibv_async_event&) {});
    domain_ = device_->allocate_protection_domain();
    connection_ = std::make_unique<rdma::connection>(io_, closers_, *device_, *domain_, std::move(resolving_),
                                                     connection_settings(settings_.reads),
                                                     static_cast<rdma::connection_handler&>(*this));
  } catch (const std::system_error& e) {
    give_up_address(e.what());
    return;
  }
  const auto reads = static_cast<std::uint8_t>(std::min<std::uint32_t>(settings_.reads, device_->limits().reads_out));
  if (const auto why = connection_->connect(reads, protocol::encode(protocol::hello{}))) {
    give_up_address(why.message());
  }
}

void link::on_established(std::span<const std::byte> private_data) {
  const auto greeting = protocol::decode_welcome(private_data);
  if (!greeting) {
    give_up_address("what listens there is no gpurdma-server that this reader understands: " +
                    greeting.error().message());
    return;
  }
  // Nobody reads this side's memory.
  if (const auto why = connection_->allow_remote_read(false)) {
    give_up_address(why.message());
    return;
  }
  established_ = true;
  welcome_ = *greeting;
  conversation_.emplace(protocol::client_conversation::settings{.credits = std::min(welcome_.credits, most_credits),
                                                                .request_timeout = settings_.timeout});
  timer_.cancel();
  handler_.on_connected();
}

void link::on_message(std::span<const std::byte> bytes) { act(conversation_->on_message(bytes, clock::now())); }

void link::on_read_done(std::uint32_t tag, std::error_code result) {
  if (!closing_) {
    handler_.on_read_done(tag, result);
  }
}

void link::on_failed(std::error_code why, std::span<const std::byte> private_data) {
  if (established_) {
    lose({exit_status::transfer_failed, "the connection to " + peer() + " was lost: " + why.message()});
    return;
  }
  const auto refusal = protocol::decode_refusal(private_data);
  if (refusal) {
    give_up_address("refused: " + refusal->sentence + " (" + std::string{protocol::name_of(refusal->code)} + ")",
                    exit_status::refused);
  } else {
    give_up_address(why.message());
  }
}

void link::on_closed(std::uint32_t) {
  // Not from inside the connection that is to be destroyed.
  boost::asio::post(io_, [this] {
    connection_.reset();
    if (retry_because_ && !closing_) {
      retry_because_.reset();
      try_next();
    } else {
      finish();
    }
  });
}

void link::request(protocol::body what, answer then) {
  if (closing_) {
    return;
  }
  protocol::client_conversation::actions todo;
  const auto id = conversation_->request(std::move(what), clock::now(), todo);
  answers_.emplace(id, std::move(then));
  act(std::move(todo));
}

void link::act(protocol::client_conversation::actions todo) {
  using conversation = protocol::client_conversation;
  for (auto& action : todo) {
    if (closing_) {
      return;
    }
    if (auto* const t = std::get_if<conversation::transmit>(&action)) {
      if (const auto why = connection_->send(t->bytes)) {
        lose({exit_status::transfer_failed, "cannot send to " + peer() + ": " + why.message()});
      }
    } else if (auto* const a = std::get_if<conversation::answered>(&action)) {
      const auto found = answers_.extract(a->request_id);
      found.mapped()(a->answer);
    } else if (auto* const n = std::get_if<conversation::noticed>(&action)) {
      handler_.on_notice(n->what);
    } else if (auto* const h = std::get_if<conversation::hang_up>(&action)) {
      lose({exit_status::transfer_failed, "the talk with " + peer() + " failed: " + h->reason.message()});
    }
  }
  if (!closing_) {
    arm(conversation_->next_deadline());
  }
}

void link::arm(clock::time_point due) {
  if (due == clock::time_point::max()) {
    timer_.cancel();
    return;
  }
  timer_.expires_at(due);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error) {
      on_time();
    }
  });
}

void link::on_time() {
  if (closing_ || clock::now() < timer_.expiry()) {
    return;  // it was set anew after it had fired
  }
  if (established_) {
    act(conversation_->on_time(clock::now()));
  } else if (!retry_because_) {
    give_up_address("no answer in time");
  }
}

void link::lose(failure why) {
  if (closing_) {
    return;
  }
  close();
  handler_.on_lost(std::move(why));
}

void link::close() {
  if (closing_) {
    return;
  }
  closing_ = true;
  timer_.cancel();
  resolving_.reset();
  if (connection_) {
    connection_->close();
  } else {
    boost::asio::post(io_, [this] { finish(); });
  }
}

void link::finish() {
  if (device_) {
    device_->close();
  }
  channel_.close();
  handler_.on_closed();
}

}  // namespace gpurdma::client
