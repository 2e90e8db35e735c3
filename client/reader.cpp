#include "client/reader.hpp"

#include <algorithm>
#include <csignal>
#include <utility>

#include "memory/checksum.hpp"
#include "rdma/error.hpp"

namespace gpurdma::client {
namespace {

using clock = std::chrono::steady_clock;

/// A shorter lease cannot be kept by renewing.
constexpr std::uint32_t least_duration_ms = 100;

/// Bytes that turned out wrong, as opposed to bytes that could not be written.
class wrong_data : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

std::string sentence_of(const protocol::error& e) {
  return e.sentence + " (" + std::string{protocol::name_of(e.code)} + ")";
}

}  // namespace

reader::reader(boost::asio::io_context& io, const options& asked, std::unique_ptr<sink> to)
    : io_{io},
      options_{asked},
      resolver_{io},
      signals_{io, SIGINT, SIGTERM},
      renewal_{io},
      stall_{io},
      worker_{io, 1},
      sink_{std::move(to)},
      link_{io, worker_, {.reads = asked.depth, .timeout = asked.timeout}, *this} {}

reader::~reader() { worker_.join(); }

void reader::start() {
  signals_.async_wait([this](const boost::system::error_code& error, int) {
    if (!error) {
      fail(exit_status::transfer_failed, "interrupted");
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
          fail(exit_status::cannot_connect, "cannot find host '" + options_.host + "': " + error.message());
          return;
        }
        std::vector<rdma::endpoint> addresses;
        for (const auto& entry : found) {
          const auto at = entry.endpoint();
          addresses.emplace_back(*at.data(), at.size());
        }
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
      fail(exit_status::refused, sentence_of(*e));
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
      fail(exit_status::refused, sentence_of(*e));
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
    fail(exit_status::transfer_failed, "the server's lease is not of what was asked for");
    return;
  }
  lease_ = given;
  outcome_.version = given.version;
  try {
    prepare_slots();
  } catch (const std::system_error& e) {
    fail(exit_status::transfer_failed, e.what());
    return;
  }
  renew_in_time();
  began_ = clock::now();
  stalled();  // before the first request, which may lose the link, and then ends this as well
  if (options_.verify) {
    checksums_until_ = plan_->first_block();
    fetch_checksums();
  }
  post_reads();
}

void reader::prepare_slots() {
  const auto longest = link_.device().max_message_size(link_.connection().port());
  // Chunks lie within checksum blocks; unverified, nothing but the device bounds them.
  constexpr std::uint32_t no_blocks = 1U << 31U;
  const auto block_size = options_.verify ? lease_.block_size : no_blocks;
  options_.chunk =
      static_cast<std::uint32_t>(std::min<std::uint64_t>({options_.chunk, longest, block_size, lease_.length}));
  plan_.emplace(read_plan::range{.offset = options_.offset, .length = lease_.length, .buffer_size = lease_.buffer_size},
                options_.chunk, block_size);
  // Twice as many as READs under way: while some arrive, others are checked and written.
  const auto chunks = (lease_.length + options_.chunk - 1) / options_.chunk + 1;
  const auto count = std::min<std::uint64_t>(std::uint64_t{2} * options_.depth, chunks);
  slots_.resize(count);
  buffer_.emplace(count * options_.chunk);
  region_.emplace(link_.domain(), buffer_->address(), buffer_->size(), rdma::region_access::local_write);
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
        fail(exit_status::transfer_failed, "the lease could not be renewed: " + sentence_of(*e));
      } else {
        lease_.duration_ms = std::max(std::get<protocol::renewed>(answer).duration_ms, least_duration_ms);
        renew_in_time();
      }
    });
  });
}

void reader::fetch_checksums() {
  // A page ahead of what is being checked is enough, and bounds what is kept.
  if (checksums_asked_ || checksums_until_ > plan_->last_block() ||
      checksums_.size() >= protocol::max_checksums_in_reply) {
    return;
  }
  checksums_asked_ = true;
  const auto count =
      std::min<std::uint64_t>(protocol::max_checksums_in_reply, plan_->last_block() - checksums_until_ + 1);
  link_.request(protocol::get_checksums{lease_.id, checksums_until_, static_cast<std::uint32_t>(count)},
                [this](const protocol::body& answer) {
                  checksums_asked_ = false;
                  if (complete_) {
                    return;
                  }
                  if (const auto* const e = std::get_if<protocol::error>(&answer)) {
                    fail(exit_status::refused, "no checksums: " + sentence_of(*e));
                    return;
                  }
                  for (const auto value : std::get<protocol::checksums>(answer).values) {
                    checksums_.emplace(checksums_until_++, value);
                  }
                  fetch_checksums();
                  take_arrived();
                });
}

void reader::post_reads() {
  while (!closing_ && !plan_->finished() && chunks_posted_ - chunks_taken_ < slots_.size() &&
         link_.connection().reads_posted() < options_.depth) {
    post_read(static_cast<std::uint32_t>(chunks_posted_ % slots_.size()));
  }
}

void reader::post_read(std::uint32_t index) {
  auto& s = slots_.at(index);
  s = {.what = *plan_->next(), .arrived = false};
  const auto why =
      link_.connection().read(index, buffer_->address() + std::uint64_t{index} * options_.chunk, region_->lkey(),
                              lease_.address + (s.what.offset - options_.offset), lease_.rkey, s.what.length);
  if (why) {
    fail(exit_status::transfer_failed, "cannot post a READ: " + why.message());
    return;
  }
  ++chunks_posted_;
}

void reader::on_read_done(std::uint32_t tag, std::error_code result) {
  if (result) {
    fail(exit_status::transfer_failed, "a READ from " + link_.peer() + " failed: " + result.message() +
                                           (result == rdma::make_error_code_of(IBV_WC_REM_ACCESS_ERR) ||
                                                    result == rdma::make_error_code_of(IBV_WC_REM_INV_REQ_ERR)
                                                ? " (the lease ended, or the server withdrew the key)"
                                                : ""));
    return;
  }
  slots_.at(tag).arrived = true;
  stalled();
  take_arrived();
  post_reads();
}

void reader::take_arrived() {
  if (taking_ || closing_ || chunks_taken_ == chunks_posted_) {
    return;
  }
  const auto index = chunks_taken_ % slots_.size();
  const auto& s = slots_.at(index);
  if (!s.arrived) {
    return;
  }
  std::optional<std::uint32_t> expected;
  if (options_.verify && s.what.ends_block && plan_->covers_block(s.what.block)) {
    const auto found = checksums_.find(s.what.block);
    if (found == checksums_.end()) {
      return;  // it has been asked for
    }
    expected = found->second;
  }
  taking_ = true;
  const auto bytes = std::as_const(*buffer_).bytes().subspan(index * options_.chunk, s.what.length);
  worker_.run([this, bytes, what = s.what, expected] { take(bytes, what, expected); },
              [this](const std::exception_ptr& error) { on_taken(error); });
}

void reader::take(std::span<const std::byte> bytes, const chunk& what, std::optional<std::uint32_t> expected) {
  if (options_.verify) {
    running_crc_ = memory::crc32c(bytes, what.begins_block ? 0 : running_crc_);
  }
  if (expected) {
    if (running_crc_ != *expected) {
      throw wrong_data{"data WRONG: the checksum of block " + std::to_string(what.block) + " (" +
                       std::to_string(lease_.block_size) + " bytes each) of '" + options_.buffer + "' does not match"};
    }
    const auto begin = what.block * lease_.block_size;
    verified_ += what.offset + what.length - begin;
  }
  sink_->write(bytes);
}

void reader::on_taken(const std::exception_ptr& error) {
  taking_ = false;
  if (closing_) {
    return;
  }
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (const wrong_data& e) {
      fail(exit_status::data_wrong, e.what());
    } catch (const std::exception& e) {
      fail(exit_status::cannot_write, e.what());
    }
    return;
  }
  const auto& done = slots_.at(chunks_taken_ % slots_.size()).what;
  outcome_.bytes += done.length;
  ++chunks_taken_;
  if (done.ends_block) {
    checksums_.erase(checksums_.begin(), checksums_.upper_bound(done.block));
  }
  if (options_.verify) {
    fetch_checksums();
  }
  if (plan_->finished() && chunks_taken_ == chunks_posted_) {
    finish_reading();
    return;
  }
  post_reads();
  take_arrived();
}

void reader::finish_reading() {
  outcome_.seconds = std::chrono::duration<double>(clock::now() - began_).count();
  outcome_.verified = verified_;
  complete_ = true;
  sink_busy_ = true;
  stall_.cancel();
  renewal_.cancel();
  stop_heeding_signals();
  worker_.run([this] { sink_->commit(); },
              [this](const std::exception_ptr& error) {
                sink_busy_ = false;
                if (error) {
                  fail(exit_status::cannot_write, rdma::describe(error));
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

void reader::stalled() {
  // Armed again whenever a READ completes.
  stall_.expires_after(options_.timeout);
  stall_.async_wait([this](const boost::system::error_code& error) {
    if (error || closing_) {
      return;
    }
    if (link_.connection().reads_posted() == 0) {
      stalled();  // it is not the server that is waited for
      return;
    }
    fail(exit_status::transfer_failed, "no READ from " + link_.peer() + " completed within " +
                                           std::to_string(options_.timeout.count()) + " ms (--timeout)");
  });
}

void reader::on_notice(const protocol::notice& what) {
  if (!complete_ && what.kind == protocol::notice_kind::lease_revoked && what.lease_id == lease_.id) {
    fail(exit_status::transfer_failed,
         "the server revoked the lease: " + what.sentence + " (" + std::string{protocol::name_of(what.code)} + ")");
  }
}

void reader::on_lost(failure why) {
  link_lost_ = true;
  if (!complete_) {
    fail(why.status, std::move(why.what));
  } else if (!sink_busy_) {
    close();
  }
}

void reader::fail(exit_status status, std::string what) {
  if (closing_) {
    return;
  }
  outcome_.failed = failure{status, std::move(what)};
  close();
}

void reader::close() {
  if (closing_) {
    return;
  }
  closing_ = true;
  resolver_.cancel();
  stop_heeding_signals();
  renewal_.cancel();
  stall_.cancel();
  link_.close();
}

void reader::on_closed() {}

}  // namespace gpurdma::client
