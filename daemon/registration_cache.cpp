#include "daemon/registration_cache.hpp"

#include <system_error>

namespace gpurdma::daemon {

registration::registration(principal_domain_ptr in, buffer_version_ptr of)
    : in_{std::move(in)},
      of_{std::move(of)},
      region_{*in_->domain, of_->memory->address(), of_->memory->size(), rdma::region_access::remote_read} {}

void registration_cache::make(const principal_domain_ptr& in, const buffer_version_ptr& of, acquired then) {
  auto made = std::make_shared<registration_ptr>();
  registrars_.run(
      [in, of, made, stop = stop_] {
        if (stop.stop_requested()) {
          throw std::system_error{std::make_error_code(std::errc::operation_canceled), "the server is stopping"};
        }
        *made = std::make_shared<registration>(in, of);
      },
      [made, then = std::move(then)](const std::exception_ptr& error) { then(std::move(*made), error); });
}

void registration_cache::destroy(registration_ptr r, done then) {
  auto last = std::make_shared<registration_ptr>(std::move(r));
  closers_.run([last] { last->reset(); }, [then = std::move(then)](const std::exception_ptr&) { then(); });
}

void registration_cache::acquire(const principal_domain_ptr& in, const buffer_version_ptr& of, acquired then) {
  if (isolation_ == isolation::lease) {
    make(in, of, std::move(then));
    return;
  }
  const key which{in.get(), of.get()};
  auto& cached = entries_[which];
  if (cached.made) {
    then(cached.made, nullptr);
    return;
  }
  cached.waiting.push_back(std::move(then));
  if (cached.waiting.size() > 1) {
    return;  // it is being made
  }
  make(in, of, [this, which](registration_ptr made, const std::exception_ptr& error) {
    const auto found = entries_.find(which);
    if (found == entries_.end()) {
      destroy(std::move(made), [] {});
      return;
    }
    const auto waiting = std::exchange(found->second.waiting, {});
    found->second.made = made;
    if (!made) {
      entries_.erase(found);
    }
    for (const auto& tell : waiting) {
      tell(made, error);
    }
  });
}

void registration_cache::release(registration_ptr r, done then) {
  if (isolation_ == isolation::lease) {
    destroy(std::move(r), std::move(then));
  } else {
    then();
  }
}

void registration_cache::clear() {
  for (auto& [which, cached] : std::exchange(entries_, {})) {
    if (cached.made) {
      destroy(std::move(cached.made), [] {});
    }
  }
}

}  // namespace gpurdma::daemon
