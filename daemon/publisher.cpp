#include "daemon/publisher.hpp"

#include <chrono>
#include <utility>

#include "daemon/event.hpp"
#include "memory/staging.hpp"

namespace gpurdma::daemon {
namespace {

void log(const registration& made, const principal_domain& domain) {
  emit(made.staged() ? event_id::buffer_staged : event_id::buffer_registered,
       {{"buffer", made.version().name}, {"device", domain.device.name()}, {"path", made.path()}, {"why", made.why()}});
}

}  // namespace

void publisher::publish(const buffer_config& wanted, done then) {
  if (with_.stop.stop_requested()) {
    then("the server is stopping");  // and nobody's lease is to be shortened for it
    return;
  }
  auto old = with_.pool.find(wanted.name);
  if (!old || wanted.replace == replacement::keep) {
    load(wanted, std::move(then));
    return;
  }
  served_.erase(wanted.name);
  with_.pool.withdraw(wanted.name, "it is being replaced; try again later");
  retire(std::move(old), true, [this, wanted, then = std::move(then)] {
    load(wanted, [this, name = wanted.name, then](const std::string& why) {
      if (!why.empty()) {
        with_.pool.withdraw(name, "its new version could not be made");
      }
      then(why);
    });
  });
}

void publisher::remove(const std::string& name) {
  served_.erase(name);
  auto version = with_.pool.find(name);
  with_.pool.withdraw(name, {});
  if (version) {
    retire(std::move(version), false, [] {});
  }
}

void publisher::withdraw(const memory::gpu& gpu, const std::string& why) {
  for (const auto& version : with_.pool.all()) {
    if (version->gpu.get() == &gpu) {
      served_.erase(version->name);  // so that a reload makes it anew
    }
  }
  with_.pool.withdraw(gpu, why);
  with_.registrations.abandon(gpu);
}

void publisher::load(const buffer_config& wanted, done then) {
  auto what = std::make_shared<loaded>();
  const auto current = loading_.insert(loading_.end(), {.buffer = wanted.name, .bytes = wanted.size});
  with_.loaders.run(
      [wanted, what, number = with_.pool.next_version(wanted.name), stop = with_.stop,
       bytes_done = current->bytes_done] {
        // Before the content: if the file changes in between, the next reload sees that it did.
        what->source = identify(wanted.source);
        what->version = load_version(wanted, number, stop, [&](std::uint64_t bytes) { *bytes_done = bytes; });
      },
      [this, wanted, what, current, then = std::move(then)](const std::exception_ptr& error) mutable {
        loading_.erase(current);
        if (loading_.empty()) {
          memory::staging().trim();
        }
        if (error) {
          then(rdma::describe(error));
        } else {
          register_everywhere(wanted, what, std::move(then));
        }
      });
}

void publisher::register_everywhere(const buffer_config& wanted, const std::shared_ptr<loaded>& what, done then) {
  struct countdown {
    std::size_t left = 0;
    std::string why;
  };
  auto shared = std::make_shared<countdown>();
  const auto domains =
      with_.settings.keys == isolation::principal ? with_.devices.domains() : std::vector<principal_domain_ptr>{};
  const auto finish = [this, wanted, what, then = std::move(then)](const std::string& why) {
    if (why.empty() && !with_.stop.stop_requested()) {
      put_into_service(wanted, *what);
    } else {
      free_when_unused(std::exchange(what->version, nullptr), [] {});
    }
    then(why);
  };
  shared->left = domains.size();
  if (shared->left == 0) {
    finish({});
  }
  for (const auto& domain : domains) {
    with_.registrations.acquire(domain, what->version,
                                [this, shared, finish, domain](registration_ptr made, const std::exception_ptr& error) {
                                  if (made) {
                                    log(*made, *domain);
                                    with_.registrations.release(std::move(made), [] {});
                                  } else {
                                    shared->why = rdma::describe(error);
                                  }
                                  if (--shared->left == 0) {
                                    finish(shared->why);
                                  }
                                });
  }
}

void publisher::put_into_service(const buffer_config& wanted, loaded& what) {
  auto version = std::exchange(what.version, nullptr);
  emit(event_id::buffer_loaded, {{"buffer", wanted.name},
                                 {"version", version->version},
                                 {"bytes", wanted.size},
                                 {"blocks", version->checksums.blocks.size()}});
  auto old = with_.pool.find(wanted.name);
  with_.pool.publish(std::move(version));
  served_.insert_or_assign(wanted.name, served_buffer{wanted, what.source});
  if (old) {
    retire(std::move(old), true, [] {});
  }
}

void publisher::retire(buffer_version_ptr version, bool replaced, std::function<void()> freed) {
  {
    const retired_version what{
        .version = version, .until = retired_version::clock::now() + with_.settings.lease_grace, .replaced = replaced};
    with_.pool.retire(what);
    emit(event_id::version_retired, {{"buffer", version->name},
                                     {"version", version->version},
                                     {"why", replaced ? "replaced" : "removed"},
                                     {"grace_ms", with_.settings.lease_grace.count()}});
    on_retired_(what);
  }
  free_when_unused(std::move(version), std::move(freed));
}

void publisher::free_when_unused(buffer_version_ptr version, std::function<void()> freed) {
  // The last reference goes on a worker, for giving back memory takes long.
  auto last = std::make_shared<buffer_version_ptr>(std::move(version));
  with_.registrations.retire(*last, [this, last, freed = std::move(freed)] {
    const auto name = (*last)->name;
    const auto number = (*last)->version;
    const bool was_served = with_.pool.forget(**last) != nullptr;
    with_.closers.run([last] { last->reset(); },
                      [name, number, was_served, freed](const std::exception_ptr&) {
                        if (was_served) {
                          emit(event_id::version_freed, {{"buffer", name}, {"version", number}});
                        }
                        freed();
                      });
  });
}

}  // namespace gpurdma::daemon
