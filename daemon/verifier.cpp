#include "daemon/verifier.hpp"

#include <optional>
#include <utility>

#include "daemon/event.hpp"

namespace gpurdma::daemon {
namespace {

void log(const verification& v) {
  if (v.why.empty()) {
    emit(event_id::buffer_verified,
         {{"buffer", v.buffer}, {"version", v.version}, {"bytes", v.bytes}, {"result", "data OK"}});
  } else {
    emit(event_id::buffer_damaged, {{"buffer", v.buffer}, {"version", v.version}, {"why", v.why}});
  }
}

struct job {
  rdma::workers& loaders;
  registration_cache& registrations;
  std::vector<std::weak_ptr<const buffer_version>> left;  ///< the next is the last
  std::stop_token stop;
  std::vector<verification> results;
  std::function<void(const std::vector<verification>&)> then;
};

void check_next(const std::shared_ptr<job>& j) {
  auto version = std::make_shared<buffer_version_ptr>();
  while (!*version && !j->left.empty()) {
    *version = j->left.back().lock();
    j->left.pop_back();
  }
  if (!*version) {
    j->then(j->results);
    return;
  }
  // The worker has it alone: should its GPU fail meanwhile, its memory goes there.
  j->registrations.keep(*version);
  const auto* const which = version->get();
  auto result = std::make_shared<verification>(verification{.buffer = which->name,
                                                            .version = which->version,
                                                            .bytes = which->memory->size(),
                                                            .gpu = which->gpu,
                                                            .error = nullptr,
                                                            .why = {}});
  j->loaders.run(
      [version, result, stop = j->stop] {
        const auto mine = std::move(*version);
        if (const auto bad = find_bad_block(*mine, stop)) {
          result->why = "block " + std::to_string(*bad) + " is WRONG";
        }
      },
      [j, which, result](const std::exception_ptr& error) {
        j->registrations.let_go(which);
        if (j->stop.stop_requested()) {
          return;  // the check was given up, which says nothing of the buffer
        }
        if (error) {
          result->error = error;
          result->why = rdma::describe(error);
        }
        log(*result);
        j->results.push_back(std::move(*result));
        check_next(j);
      });
}

}  // namespace

void verify(rdma::workers& loaders, registration_cache& registrations, const std::vector<buffer_version_ptr>& versions,
            const std::stop_token& stop, std::function<void(const std::vector<verification>&)> then) {
  check_next(std::make_shared<job>(
      job{loaders, registrations, {versions.rbegin(), versions.rend()}, stop, {}, std::move(then)}));
}

}  // namespace gpurdma::daemon
