#include "client/gpu_fetch.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "memory/checksum.hpp"

namespace gpurdma::client {
namespace {

/// Bytes that turned out wrong, as opposed to a GPU that could not look at them.
class wrong_data : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace

gpu_fetch::gpu_fetch(const options& asked, const protocol::lease& lent, const memory::gpu_ptr& gpu,
                     std::uint32_t read_size, link& over, rdma::workers& worker, transfer_handler& handler)
    : options_{asked},
      lease_{lent},
      gpu_{gpu},
      link_{over},
      worker_{worker},
      handler_{handler},
      plan_{{.offset = asked.offset, .length = lent.length, .buffer_size = lent.buffer_size},
            std::min<std::uint32_t>(read_size, memory::checksum_block_size),
            memory::checksum_block_size},
      base_{plan_.first_block() * memory::checksum_block_size},
      landing_{over.domain(), asked.offset - base_ + lent.length, gpu},
      feed_{over, lent, plan_,
            [this](std::uint64_t, std::span<const std::uint32_t> values) {
              checksums_.insert(checksums_.end(), values.begin(), values.end());
              feed_.ask();
              check_if_all_is_there();
            },
            [this](failure why) { fail(std::move(why)); }},
      lengths_(asked.depth) {
  if (asked.verify && lent.block_size != memory::checksum_block_size) {
    throw std::runtime_error{"the server's checksums are of " + std::to_string(lent.block_size) +
                             " bytes each, which this reader cannot check on a GPU; read with --no-verify"};
  }
  for (auto tag = asked.depth; tag-- > 0;) {
    free_tags_.push_back(tag);
  }
}

void gpu_fetch::start() {
  began_ = std::chrono::steady_clock::now();
  if (options_.verify) {
    feed_.ask();
  }
  post_reads();
}

void gpu_fetch::report(outcome& to) const {
  to.bytes = bytes_;
  if (done_) {
    to.verified = verified_;
    to.seconds = std::chrono::duration<double>(ended_ - began_).count();
  }
}

void gpu_fetch::post_reads() {
  while (!stopped_ && !plan_.finished() && !free_tags_.empty()) {
    const auto what = *plan_.next();
    const auto tag = free_tags_.back();
    const auto to = landing_.address() + (what.offset - base_);
    if (auto why = link_.read(tag, to, landing_.lkey(), lease_, what.offset - options_.offset, what.length)) {
      fail(std::move(*why));
      return;
    }
    free_tags_.pop_back();
    lengths_.at(tag) = what.length;
  }
}

void gpu_fetch::on_read_done(std::uint32_t tag) {
  if (stopped_) {
    return;
  }
  bytes_ += lengths_.at(tag);
  free_tags_.push_back(tag);
  post_reads();
  check_if_all_is_there();
}

void gpu_fetch::check_if_all_is_there() {
  if (stopped_ || checking_ || bytes_ != lease_.length || (options_.verify && !feed_.complete())) {
    return;
  }
  checking_ = true;
  worker_.run([this] { check(); }, [this](const std::exception_ptr& error) { on_checked(error); });
}

void gpu_fetch::check() {
  // The adapter wrote past the GPU's back: only now may the GPU look.
  gpu_->flush_inbound_writes();
  if (!options_.verify) {
    return;
  }
  std::vector<std::uint32_t> found(checksums_.size());
  landing_.memory().checksum_blocks(0, found);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto block = plan_.first_block() + i;
    if (!plan_.covers_block(block)) {
      continue;
    }
    if (found[i] != checksums_[i]) {
      throw wrong_data{"data WRONG: the checksum of block " + std::to_string(block) + " (" +
                       std::to_string(lease_.block_size) + " bytes each) of '" + options_.buffer + "' does not match"};
    }
    verified_ += std::min<std::uint64_t>(lease_.block_size, lease_.buffer_size - block * lease_.block_size);
  }
}

void gpu_fetch::on_checked(const std::exception_ptr& error) {
  if (stopped_) {
    return;
  }
  if (!error) {
    ended_ = std::chrono::steady_clock::now();
    done_ = true;
    handler_.on_transferred();
    return;
  }
  try {
    std::rethrow_exception(error);
  } catch (const wrong_data& e) {
    fail({exit_status::data_wrong, e.what()});
  } catch (const std::exception& e) {
    fail({exit_status::cannot_write, e.what()});
  }
}

void gpu_fetch::fail(failure why) {
  if (!std::exchange(stopped_, true)) {
    handler_.on_transfer_failed(std::move(why));
  }
}

}  // namespace gpurdma::client
