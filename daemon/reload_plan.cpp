#include "daemon/reload_plan.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <utility>
#include <variant>

namespace gpurdma::daemon {
namespace {

bool same_content(buffer_config a, const buffer_config& b) {
  a.replace = b.replace;  // how to replace it says nothing of what it is
  return a == b;
}

std::vector<std::string> addresses_of(const config& c) {
  std::vector<std::string> all;
  for (const auto& at : c.listen) {
    all.push_back(at.to_string());
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

source_identity identify(const memory::content_source& source) {
  const auto* const file = std::get_if<memory::file_source>(&source);
  struct stat status {};
  if (file == nullptr || stat(file->path.c_str(), &status) != 0) {
    return {};
  }
  return {.device = status.st_dev,
          .inode = status.st_ino,
          .size = status.st_size,
          .changed = status.st_mtim.tv_sec,
          .changed_ns = status.st_mtim.tv_nsec};
}

reload_plan plan_reload(const config& current, const served_buffers& served, const config& wanted,
                        const std::map<std::string, source_identity>& sources, const std::set<std::string>& republish) {
  reload_plan plan;
  for (const auto& b : wanted.buffers) {
    const auto now = served.find(b.name);
    if (now == served.end()) {
      plan.added.push_back(b);
    } else if (!republish.contains(b.name) && same_content(now->second.settings, b) &&
               now->second.source == sources.at(b.name)) {
      plan.kept.push_back(b.name);
    } else {
      plan.replaced.push_back(b);
    }
  }
  for (const auto& now : served) {
    const auto same_name = [&](const auto& b) { return b.name == now.first; };
    if (std::none_of(wanted.buffers.begin(), wanted.buffers.end(), same_name)) {
      plan.removed.push_back(now.first);
    }
  }
  if (addresses_of(current) != addresses_of(wanted)) {
    plan.needs_restart.emplace_back("listen");
  }
  if (current.keys != wanted.keys) {
    plan.needs_restart.emplace_back("security: isolation");
  }
  if (current.control != wanted.control) {
    plan.needs_restart.emplace_back("control");
  }
  return plan;
}

config in_force_after_reload(const config& current, config wanted) {
  wanted.listen = current.listen;
  wanted.keys = current.keys;
  wanted.control = current.control;
  return wanted;
}

}  // namespace gpurdma::daemon
