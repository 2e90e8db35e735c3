#include "daemon/buffer_pool.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "memory/host_memory.hpp"

namespace gpurdma::daemon {

buffer_version_ptr load_version(const buffer_config& from, std::uint64_t version, const std::stop_token& stop) {
  auto made = std::make_shared<buffer_version>();
  made->name = from.name;
  made->version = version;
  made->memory = std::make_unique<memory::host_memory>(from.size);
  made->checksums = memory::load(*made->memory, from.source, stop);
  made->digest = memory::content_digest(made->checksums);
  return made;
}

std::optional<std::size_t> find_bad_block(const buffer_version& of, const std::stop_token& stop) {
  const auto now = memory::checksum(*of.memory, stop).blocks;
  const auto& then = of.checksums.blocks;
  const auto difference = std::mismatch(then.begin(), then.end(), now.begin(), now.end()).first;
  return difference == then.end() ? std::nullopt : std::optional{static_cast<std::size_t>(difference - then.begin())};
}

void buffer_pool::publish(buffer_version_ptr version) {
  auto name = version->name;
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

}  // namespace gpurdma::daemon
