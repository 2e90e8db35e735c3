#include "client/reader.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "client/bench.hpp"
#include "client/fetch.hpp"
#include "client/gpu_fetch.hpp"
#include "rdma/error.hpp"

namespace gpurdma::client {
namespace {

using clock = std::chrono::steady_clock;

/// A shorter lease cannot be kept by renewing.
constexpr std::uint32_t least_duration_ms = 100;

}  // namespace

reader::reader(boost::asio::io_context& io, const options& asked, std::unique_ptr<sink> to, memory::gpu_ptr gpu)
    : io_{io},
      options_{asked},
      resolver_{io},
      signals_{io, SIGINT, SIGTERM},
      renewal_{io},
      stall_{io},
      worker_{io, 1},
      sink_{std::move(to)},
      gpu_{std::move(gpu)},
      link_{io, worker_, {.reads = asked.depth, .timeout = asked.timeout}, *this} {}

reader::~reader() { worker_.join(); }

void reader::start() {
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) {
      fail({exit_status::transfer_failed, "interrupted"});
    }
  });
  resolve();
}

void reader::resolve() {
  resolver_.async_resolve(
      options_.host, std::to_string(options_.port),
      [this](const boost::system::error_code& error, const boost::asio::ip::tcp::resolver::results_type& found) {
        if (closing_) {
          return;
        }
        if (error) {
          fail({exit_status::cannot_connect, "cannot find host '" + options_.host + "': " + error.message()});
          return;
        }
        std::vector<rdma::endpoint> addresses;
        for (const auto& entry : found) {
          const auto at = entry.endpoint();
          addresses.emplace_back(*at.data(), at.size());
        }
        connecting_since_ = clock::now();
        link_.connect(std::move(addresses));
      });
}

void reader::on_connected() {
  outcome_.peer = link_.peer();
  if (options_.list) {
    list_after({});
  } else {
    open();
  }
}

void reader::list_after(const std::string& name) {
  link_.request(protocol::list{name}, [this](const protocol::body& answer) {
    if (const auto* const e = std::get_if<protocol::error>(&answer)) {
      fail({exit_status::refused, sentence_of(*e)});
      return;
    }
    const auto& page = std::get<protocol::listing>(answer);
    outcome_.buffers.insert(outcome_.buffers.end(), page.entries.begin(), page.entries.end());
    // A bound against a server that never ends; each page is in ascending order, or it would not be here.
    constexpr std::size_t most = 1'000'000;
    if (page.more && outcome_.buffers.size() < most) {
      list_after(page.entries.back().name);
    } else {
      close();
    }
  });
}

void reader::open() {
  const protocol::open request{
      .name = options_.buffer, .offset = options_.offset, .length = options_.length.value_or(protocol::to_the_end)};
  link_.request(request, [this](const protocol::body& answer) {
    if (const auto* const e = std::get_if<protocol::error>(&answer)) {
      fail({exit_status::refused, sentence_of(*e)});
    } else {
      on_lease(std::get<protocol::lease>(answer));
    }
  });
}

bool reader::is_credible(const protocol::lease& given) const {
  // What the server says decides which memory is written and how long this runs; it is believed only where it is
  // what was asked for.
  const auto left = given.buffer_size > options_.offset ? given.buffer_size - options_.offset : 0;
  constexpr std::uint32_t least_block = 4096;
  constexpr std::uint32_t most_block = 1U << 30U;
  return given.length > 0 && given.length <= left && given.length == options_.length.value_or(left) &&
         given.address <= ~std::uint64_t{0} - given.length && given.block_size >= least_block &&
         given.block_size <= most_block && given.duration_ms >= least_duration_ms;
}

void reader::on_lease(const protocol::lease& given) {
  if (!is_credible(given)) {
    fail({exit_status::transfer_failed, "the server's lease is not of what was asked for"});
    return;
  }
  lease_ = given;
  outcome_.version = given.version;
  outcome_.seconds_to_lease = std::chrono::duration<double>(clock::now() - connecting_since_).count();
  std::uint32_t read_size = 0;
  try {
    read_size = link_.longest_read(options_.read_size, lease_);
  } catch (const std::system_error& e) {
    fail({exit_status::transfer_failed, e.what()});
    return;
  }
  renew_in_time();
  auto made = std::make_shared<std::unique_ptr<transfer>>();
  worker_.run([this, made, read_size] { *made = make_transfer(read_size); },
              [this, made](const std::exception_ptr& error) { on_transfer_made(std::move(*made), error); });
}

std::unique_ptr<transfer> reader::make_transfer(std::uint32_t read_size) {
  transfer_handler& self = *this;  // which make_unique could not see: the base is private
  if (options_.bench) {
    return std::make_unique<bench>(options_, lease_, gpu_, read_size, link_, self);
  }
  if (gpu_) {
    return std::make_unique<gpu_fetch>(options_, lease_, gpu_, read_size, link_, worker_, self);
  }
  return std::make_unique<fetch>(options_, lease_, read_size, link_, worker_, *sink_, self);
}

void reader::on_transfer_made(std::unique_ptr<transfer> made, const std::exception_ptr& error) {
  if (closing_) {
    return;
  }
  if (error) {
    fail({exit_status::transfer_failed, rdma::describe(error)});
    return;
  }
  transfer_ = std::move(made);
  progress_ = clock::now();
  watch_progress();
  transfer_->start();
}

void reader::renew_in_time() {
  renewal_.expires_after(std::chrono::milliseconds{lease_.duration_ms} / 3);
  renewal_.async_wait([this](const boost::system::error_code& error) {
    if (error || closing_) {
      return;
    }
    link_.request(protocol::renew{lease_.id}, [this](const protocol::body& answer) {
      if (complete_) {
        return;
      }
      if (const auto* const e = std::get_if<protocol::error>(&answer)) {
        fail({exit_status::transfer_failed, "the lease could not be renewed: " + sentence_of(*e)});
      } else {
        lease_.duration_ms = std::max(std::get<protocol::renewed>(answer).duration_ms, least_duration_ms);
        renew_in_time();
      }
    });
  });
}

void reader::on_read_done(std::uint32_t tag, std::error_code result) {
  if (result) {
    fail({exit_status::transfer_failed, "a READ from " + link_.peer() + " failed: " + result.message() +
                                            (result == rdma::make_error_code_of(IBV_WC_REM_ACCESS_ERR) ||
                                                     result == rdma::make_error_code_of(IBV_WC_REM_INV_REQ_ERR)
                                                 ? " (the lease ended, or the server withdrew the key)"
                                                 : "")});
    return;
  }
  if (closing_) {
    return;
  }
  progress_ = clock::now();
  transfer_->on_read_done(tag);
}

void reader::on_transfer_failed(failure why) { fail(std::move(why)); }

void reader::on_transferred() {
  complete_ = true;
  transfer_->report(outcome_);
  sink_busy_ = true;
  stall_.cancel();
  renewal_.cancel();
  stop_heeding_signals();
  worker_.run([this] { sink_->commit(); },
              [this](const std::exception_ptr& error) {
                sink_busy_ = false;
                if (error) {
                  fail({exit_status::cannot_write, rdma::describe(error)});
                } else if (link_lost_) {
                  close();
                } else {
                  release();
                }
              });
}

void reader::stop_heeding_signals() {
  signals_.cancel();
  signals_.clear();  // from now on a signal ends the program, whatever the worker waits for
}

void reader::release() {
  // For the server's books: the bytes are here and right whatever it answers.
  link_.request(protocol::release{lease_.id, outcome_.bytes}, [this](const protocol::body&) { close(); });
}

void reader::watch_progress() {
  // Looks at progress_ when it would be too old, instead of being set anew for each READ, which is a system call.
  stall_.expires_at(progress_ + options_.timeout);
  stall_.async_wait([this](const boost::system::error_code& error) {
    if (error || closing_) {
      return;
    }
    if (link_.connection().reads_posted() == 0) {
      progress_ = clock::now();  // it is not the server that is waited for
    }
    if (clock::now() - progress_ < options_.timeout) {
      watch_progress();
      return;
    }
    fail({exit_status::transfer_failed, "no READ from " + link_.peer() + " completed within " +
                                            std::to_string(options_.timeout.count()) + " ms (--timeout)"});
  });
}

void reader::on_notice(const protocol::notice& what) {
  if (!complete_ && what.kind == protocol::notice_kind::lease_revoked && what.lease_id == lease_.id) {
    fail({exit_status::transfer_failed,
          "the server revoked the lease: " + what.sentence + " (" + std::string{protocol::name_of(what.code)} + ")"});
  }
}

void reader::on_lost(failure why) {
  link_lost_ = true;
  if (!complete_) {
    fail(std::move(why));
  } else if (!sink_busy_) {
    close();
  }
}

void reader::fail(failure why) {
  if (closing_) {
    return;
  }
  outcome_.failed = std::move(why);
  close();
}

void reader::close() {
  if (closing_) {
    return;
  }
  closing_ = true;
  if (transfer_ && !complete_) {
    transfer_->stop();
    transfer_->report(outcome_);
  }
  resolver_.cancel();
  stop_heeding_signals();
  renewal_.cancel();
  stall_.cancel();
  link_.close();
}

}  // namespace gpurdma::client
