#include "daemon/reloader.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "daemon/event.hpp"

namespace gpurdma::daemon {

struct reloader::job {
  std::set<std::string> republish;
  done then;
  config wanted;
  std::map<std::string, source_identity> sources;
  std::vector<buffer_config> to_publish;
  std::size_t next = 0;
  result so_far;
};

reloader::reloader(rdma::workers& loaders, publisher& buffers, config& settings, std::filesystem::path file)
    : loaders_{loaders}, buffers_{buffers}, settings_{settings}, file_{std::move(file)} {}

void reloader::reload(std::set<std::string> republish, done then) {
  under_way_ = true;
  emit(event_id::reload_started, {{"file", file_.string()}});
  auto j = std::make_shared<job>();
  j->republish = std::move(republish);
  j->then = std::move(then);
  loaders_.run(
      [j, file = file_] {
        j->wanted = load_config(file);
        for (const auto& b : j->wanted.buffers) {
          j->sources.emplace(b.name, identify(b.source));
        }
        for (const auto& name : j->republish) {
          if (!j->sources.contains(name)) {
            throw config_error{"there is no buffer '" + name + "' to publish again"};
          }
        }
      },
      [this, j](const std::exception_ptr& error) { on_read(j, error); });
}

void reloader::on_read(const std::shared_ptr<job>& j, const std::exception_ptr& error) {
  if (error) {
    j->so_far.why = rdma::describe(error);
    finish(j);
    return;
  }
  auto& plan = j->so_far.plan;
  plan = plan_reload(settings_, buffers_.served(), j->wanted, j->sources, j->republish);
  const auto before = std::exchange(settings_, in_force_after_reload(settings_, j->wanted));
  set_log_level(settings_.log);
  for (const auto& key : plan.needs_restart) {
    emit(event_id::restart_needed, {{"key", key}});
  }
  for (const auto& b : before.buffers) {  // not plan.removed, for some may be out of service
    if (!j->sources.contains(b.name)) {
      buffers_.remove(b.name);
    }
  }
  j->to_publish = plan.replaced;
  j->to_publish.insert(j->to_publish.end(), plan.added.begin(), plan.added.end());
  next(j);
}

void reloader::next(const std::shared_ptr<job>& j) {
  if (j->next == j->to_publish.size()) {
    finish(j);
    return;
  }
  const auto& wanted = j->to_publish[j->next++];
  buffers_.publish(wanted, [this, j, name = wanted.name](const std::string& why) {
    if (!why.empty()) {
      emit(event_id::buffer_failed, {{"buffer", name}, {"why", why}});
      j->so_far.failed.push_back({name, why});
    }
    next(j);
  });
}

void reloader::finish(const std::shared_ptr<job>& j) {
  const auto& r = j->so_far;
  if (r.ok()) {
    emit(event_id::reload_finished, {{"added", r.plan.added.size()},
                                     {"replaced", r.plan.replaced.size()},
                                     {"removed", r.plan.removed.size()},
                                     {"kept", r.plan.kept.size()}});
  } else {
    emit(event_id::reload_failed,
         {{"why", r.why.empty() ? std::to_string(r.failed.size()) + " buffers could not be made or replaced" : r.why}});
  }
  under_way_ = false;
  j->then(r);
}

}  // namespace gpurdma::daemon
