#include "memory/staging.hpp"

#include <algorithm>
#include <cassert>
#include <thread>
#include <utility>

#include "memory/checksum.hpp"

namespace gpurdma::memory {

unsigned readers_for(unsigned threads) noexcept {
  constexpr unsigned fewest = 2;
  constexpr unsigned most = 12;
  return std::clamp(threads / 2 + threads / 4, fewest, most);
}

unsigned default_readers() noexcept { return readers_for(std::thread::hardware_concurrency()); }

staging_pool::staging_pool(source from, const staging_options& options) : from_{std::move(from)}, options_{options} {}

staging_pool::~staging_pool() {
  trim();
  assert(buffers_ == 0);
}

void staging_pool::configure(const staging_options& options) {
  assert(options.piece != 0 && options.piece % checksum_block_size == 0 && options.readers != 0 && options.depth != 0);
  trim();
  const std::scoped_lock lock{mutex_};
  assert(buffers_ == 0);
  options_ = options;
  most_buffers_ = 0;
}

staging_options staging_pool::options() const {
  const std::scoped_lock lock{mutex_};
  return options_;
}

bool staging_pool::may_take() const noexcept {
  return !free_.empty() || buffers_ == 0 || (buffers_ + 1) * options_.piece <= options_.limit;
}

std::byte* staging_pool::take(std::unique_lock<std::mutex> lock) {
  if (!free_.empty()) {
    auto* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  most_buffers_ = std::max(most_buffers_, ++buffers_);
  const auto size = options_.piece;
  lock.unlock();  // pinning takes a while
  try {
    return from_.allocate(size);
  } catch (...) {
    lock.lock();
    --buffers_;
    lock.unlock();
    freed_.notify_one();
    throw;
  }
}

std::byte* staging_pool::acquire(const std::stop_token& stop) {
  std::unique_lock lock{mutex_};
  if (!freed_.wait(lock, stop, [this] { return may_take(); })) {
    return nullptr;
  }
  return take(std::move(lock));
}

std::byte* staging_pool::try_acquire() {
  std::unique_lock lock{mutex_};
  return may_take() ? take(std::move(lock)) : nullptr;
}

void staging_pool::give_back(std::byte* buffer) noexcept {
  {
    const std::scoped_lock lock{mutex_};
    free_.push_back(buffer);
  }
  freed_.notify_one();
}

void staging_pool::trim() {
  std::vector<std::byte*> unused;
  {
    const std::scoped_lock lock{mutex_};
    unused.swap(free_);
    buffers_ -= unused.size();
  }
  for (auto* const buffer : unused) {
    from_.release(buffer);
  }
}

std::size_t staging_pool::pinned_bytes() const {
  const std::scoped_lock lock{mutex_};
  return buffers_ * options_.piece;
}

std::size_t staging_pool::peak_bytes() const {
  const std::scoped_lock lock{mutex_};
  return most_buffers_ * options_.piece;
}

}  // namespace gpurdma::memory
