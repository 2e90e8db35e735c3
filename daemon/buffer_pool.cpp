#include "daemon/buffer_pool.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "memory/cuda_memory.hpp"
#include "memory/host_memory.hpp"

namespace gpurdma::daemon {

namespace {

std::optional<std::size_t> first_difference(const memory::content_checksums& now,
                                            const memory::content_checksums& then) {
  const auto at = std::mismatch(then.blocks.begin(), then.blocks.end(), now.blocks.begin(), now.blocks.end()).first;
  return at == then.blocks.end() ? std::nullopt : std::optional{static_cast<std::size_t>(at - then.blocks.begin())};
}

}  // namespace

buffer_version_ptr load_version(const buffer_config& from, std::uint64_t version, const std::stop_token& stop,
                                const memory::load_progress& on_progress) {
  auto made = std::make_shared<buffer_version>();
  made->name = from.name;
  made->version = version;
  if (from.gpu) {
    made->gpu = memory::find_gpu(*from.gpu);
    made->memory = std::make_unique<memory::cuda_memory>(made->gpu, from.size);
    made->staging = from.allow_staging ? std::make_unique<staged_copy>() : nullptr;
  } else {
    made->memory = std::make_unique<memory::host_memory>(from.size);
  }
  made->checksums = memory::load(*made->memory, from.source, stop, on_progress);
  made->digest = memory::content_digest(made->checksums);
  return made;
}

std::optional<std::size_t> find_bad_block(const buffer_version& of, const std::stop_token& stop) {
  auto bad = first_difference(memory::checksum(*of.memory, stop), of.checksums);
  if (!bad && of.staged()) {
    bad = first_difference(memory::checksum(*of.staging->get(), stop), of.checksums);
  }
  return bad;
}

void buffer_pool::withdraw(const std::string& name, const std::string& why) {
  buffers_.erase(name);
  if (why.empty()) {
    withdrawn_.erase(name);
  } else {
    withdrawn_.insert_or_assign(name, why);
  }
}

void buffer_pool::withdraw(const memory::gpu& gpu, const std::string& why) {
  for (const auto& version : all()) {
    if (version->gpu.get() == &gpu) {
      withdraw(version->name, why);
    }
  }
}

std::string buffer_pool::why_withdrawn(std::string_view name) const {
  const auto found = withdrawn_.find(name);
  return found == withdrawn_.end() ? std::string{} : found->second;
}

void buffer_pool::publish(buffer_version_ptr version) {
  auto name = version->name;
  last_versions_[name] = version->version;
  withdrawn_.erase(name);
  buffers_.insert_or_assign(std::move(name), std::move(version));
}

buffer_version_ptr buffer_pool::find(std::string_view name) const {
  const auto found = buffers_.find(name);
  return found == buffers_.end() ? nullptr : found->second;
}

std::vector<buffer_version_ptr> buffer_pool::list(std::string_view after, std::size_t most) const {
  std::vector<buffer_version_ptr> page;
  for (auto next = buffers_.upper_bound(after); next != buffers_.end() && page.size() < most; ++next) {
    page.push_back(next->second);
  }
  return page;
}

std::vector<buffer_version_ptr> buffer_pool::all() const { return list({}, std::numeric_limits<std::size_t>::max()); }

std::uint64_t buffer_pool::next_version(const std::string& name) const {
  const auto last = last_versions_.find(name);
  return last == last_versions_.end() ? 1 : last->second + 1;
}

void buffer_pool::retire(retired_version what) {
  if (const auto current = buffers_.find(what.version->name);
      current != buffers_.end() && current->second == what.version) {
    buffers_.erase(current);
  }
  retired_.push_back(std::move(what));
}

const retired_version* buffer_pool::retired(const buffer_version& which) const {
  const auto found =
      std::find_if(retired_.begin(), retired_.end(), [&](const auto& r) { return r.version.get() == &which; });
  return found == retired_.end() ? nullptr : &*found;
}

buffer_version_ptr buffer_pool::forget(const buffer_version& which) {
  const auto found =
      std::find_if(retired_.begin(), retired_.end(), [&](const auto& r) { return r.version.get() == &which; });
  if (found == retired_.end()) {
    return nullptr;
  }
  auto last = std::move(found->version);
  retired_.erase(found);
  return last;
}

void buffer_pool::clear() {
  buffers_.clear();
  retired_.clear();
}

}  // namespace gpurdma::daemon
