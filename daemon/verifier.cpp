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

}  // namespace

void verify(rdma::workers& loaders, std::vector<buffer_version_ptr> versions, const std::stop_token& stop,
            std::function<void(const std::vector<verification>&)> then) {
  struct progress {
    std::size_t left;
    std::vector<verification> results;
    std::function<void(const std::vector<verification>&)> then;
  };
  const auto shared = std::make_shared<progress>(progress{versions.size(), {}, std::move(then)});
  if (versions.empty()) {
    shared->then({});
  }
  for (auto& version : versions) {
    auto result = std::make_shared<verification>(verification{.buffer = version->name,
                                                              .version = version->version,
                                                              .bytes = version->memory->size(),
                                                              .gpu = version->gpu,
                                                              .error = nullptr,
                                                              .why = {}});
    loaders.run(
        // The worker holds the version alone: should it be retired meanwhile, its memory goes there.
        [version = std::move(version), result, stop] {
          if (const auto bad = find_bad_block(*version, stop)) {
            result->why = "block " + std::to_string(*bad) + " is WRONG";
          }
        },
        [shared, result, stop](const std::exception_ptr& error) {
          if (stop.stop_requested()) {
            return;  // the check was given up, which says nothing of the buffer
          }
          if (error) {
            result->error = error;
            result->why = rdma::describe(error);
          }
          log(*result);
          shared->results.push_back(std::move(*result));
          if (--shared->left == 0) {
            shared->then(shared->results);
          }
        });
  }
}

}  // namespace gpurdma::daemon
