#include "client/fetch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "memory/checksum.hpp"

namespace gpurdma::client {
namespace {

// Chunks lie within checksum blocks; unverified, nothing but the device bounds them.
constexpr std::uint32_t no_blocks = 1U << 31U;

std::uint32_t block_size_of(const options& asked, const protocol::lease& lent) {
  return asked.verify ? lent.block_size : no_blocks;
}

/// Twice as many slots as READs under way: while some chunks arrive, others are checked and written.
std::size_t count_slots(const options& asked, const protocol::lease& lent, std::uint32_t chunk_size) {
  const auto chunks = (lent.length + chunk_size - 1) / chunk_size + 1;
  return std::min<std::uint64_t>(std::uint64_t{2} * asked.depth, chunks);
}

/// Bytes that turned out wrong, as opposed to bytes that could not be written.
class wrong_data : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace

fetch::fetch(const options& asked, const protocol::lease& lent, std::uint32_t read_size, link& over,
             rdma::workers& worker, sink& to, transfer_handler& handler)
    : options_{asked},
      lease_{lent},
      link_{over},
      worker_{worker},
      sink_{to},
      handler_{handler},
      chunk_size_{std::min(read_size, block_size_of(asked, lent))},
      plan_{{.offset = asked.offset, .length = lent.length, .buffer_size = lent.buffer_size},
            chunk_size_,
            block_size_of(asked, lent)},
      slots_(count_slots(asked, lent, chunk_size_)),
      buffer_{slots_.size() * chunk_size_},
      region_{over.domain(), buffer_.address(), buffer_.size(), rdma::region_access::local_write},
      feed_{over, lent, plan_,
            [this](std::uint64_t first, std::span<const std::uint32_t> values) { on_checksums(first, values); },
            [this](failure why) { fail(std::move(why)); }} {}

void fetch::start() {
  began_ = std::chrono::steady_clock::now();
  if (options_.verify) {
    ask_for_checksums();
  }
  post_reads();
}

void fetch::report(outcome& to) const {
  to.bytes = bytes_;
  if (done_) {
    to.verified = verified_;
    to.seconds = std::chrono::duration<double>(ended_ - began_).count();
  }
}

void fetch::ask_for_checksums() {
  // A page ahead of what is being checked is enough, and bounds what is kept.
  if (checksums_.size() < protocol::max_checksums_in_reply) {
    feed_.ask();
  }
}

void fetch::on_checksums(std::uint64_t first, std::span<const std::uint32_t> values) {
  if (stopped_ || done_) {
    return;
  }
  for (const auto value : values) {
    checksums_.emplace(first++, value);
  }
  ask_for_checksums();
  take_arrived();
}

void fetch::post_reads() {
  while (!stopped_ && !plan_.finished() && chunks_posted_ - chunks_taken_ < slots_.size() &&
         link_.connection().reads_posted() < options_.depth) {
    const auto index = static_cast<std::uint32_t>(chunks_posted_ % slots_.size());
    auto& s = slots_.at(index);
    s = {.what = *plan_.next(), .arrived = false};
    const auto to = buffer_.address() + std::uint64_t{index} * chunk_size_;
    if (auto why = link_.read(index, to, region_.lkey(), lease_, s.what.offset - options_.offset, s.what.length)) {
      fail(std::move(*why));
      return;
    }
    ++chunks_posted_;
  }
}

void fetch::on_read_done(std::uint32_t tag) {
  slots_.at(tag).arrived = true;
  take_arrived();
  post_reads();
}

void fetch::take_arrived() {
  if (taking_ || stopped_ || chunks_taken_ == chunks_posted_) {
    return;
  }
  const auto index = chunks_taken_ % slots_.size();
  const auto& s = slots_.at(index);
  if (!s.arrived) {
    return;
  }
  std::optional<std::uint32_t> expected;
  if (options_.verify && s.what.ends_block && plan_.covers_block(s.what.block)) {
    const auto found = checksums_.find(s.what.block);
    if (found == checksums_.end()) {
      return;  // it has been asked for
    }
    expected = found->second;
  }
  taking_ = true;
  const auto bytes = std::as_const(buffer_).bytes().subspan(index * chunk_size_, s.what.length);
  worker_.run([this, bytes, what = s.what, expected] { take(bytes, what, expected); },
              [this](const std::exception_ptr& error) { on_taken(error); });
}

void fetch::take(std::span<const std::byte> bytes, const chunk& what, std::optional<std::uint32_t> expected) {
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
  sink_.write(bytes);
}

void fetch::on_taken(const std::exception_ptr& error) {
  taking_ = false;
  if (stopped_) {
    return;
  }
  if (error) {
    try {
      std::rethrow_exception(error);
    } catch (const wrong_data& e) {
      fail({exit_status::data_wrong, e.what()});
    } catch (const std::exception& e) {
      fail({exit_status::cannot_write, e.what()});
    }
    return;
  }
  const auto& taken = slots_.at(chunks_taken_ % slots_.size()).what;
  bytes_ += taken.length;
  ++chunks_taken_;
  if (taken.ends_block) {
    checksums_.erase(checksums_.begin(), checksums_.upper_bound(taken.block));
  }
  if (options_.verify) {
    ask_for_checksums();
  }
  if (plan_.finished() && chunks_taken_ == chunks_posted_) {
    ended_ = std::chrono::steady_clock::now();
    done_ = true;
    handler_.on_transferred();
    return;
  }
  post_reads();
  take_arrived();
}

void fetch::fail(failure why) {
  if (!done_ && !std::exchange(stopped_, true)) {
    handler_.on_transfer_failed(std::move(why));
  }
}

}  // namespace gpurdma::client
