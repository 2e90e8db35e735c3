#include "daemon/registration_cache.hpp"

#include <system_error>

#include "rdma/gpu_region.hpp"

namespace gpurdma::daemon {

registration::registration(principal_domain_ptr in, buffer_version_ptr of)
    : in_{std::move(in)}, of_{std::move(of)}, made_{make(*in_->domain, *of_)} {}

registration::made registration::make(ibv_pd& domain, const buffer_version& of) {
  if (of.gpu) {
    return make_on_gpu(domain, of);
  }
  const auto address = of.memory->address();
  return {.region = {domain, address, of.memory->size(), rdma::region_access::remote_read}, .address = address};
}

registration::made registration::make_on_gpu(ibv_pd& domain, const buffer_version& of) {
  // Shared by the registrations that are made meanwhile, and closed after the last: a registration needs it no more.
  std::shared_ptr<const memory::dma_buf> exported;
  const rdma::gpu_range range{.gpu = of.gpu->info().label(),
                              .address = of.memory->address(),
                              .length = of.memory->size(),
                              .export_dma_buf = [&] {
                                exported = of.memory->export_dma_buf();
                                return rdma::dma_buf_place{exported->fd(), exported->offset()};
                              }};
  try {
    auto made = rdma::register_gpu_memory(domain, range, rdma::region_access::remote_read);
    return {.region = std::move(made.region),
            .address = range.address,
            .path = rdma::name_of(made.path),
            .why = std::move(made.why)};
  } catch (const rdma::no_gpu_path& e) {
    if (!of.staging) {
      throw rdma::no_gpu_path{std::string{e.what()} +
                              "; run modprobe nvidia_peermem, or set allow_staging: true for a copy in host memory"};
    }
    return make_staged(domain, of, e.what());
  }
}

registration::made registration::make_staged(ibv_pd& domain, const buffer_version& of, const std::string& why) {
  const auto& copy = of.staging->of(*of.memory, of.checksums);
  return {.region = {domain, copy.address(), copy.size(), rdma::region_access::remote_read},
          .address = copy.address(),
          .path = "staged",
          .staged = true,
          .why = why};
}

void registration_cache::make(const principal_domain_ptr& in, const buffer_version_ptr& of, acquired then) {
  auto made = std::make_shared<registration_ptr>();
  ++existing_[of.get()];
  registrars_.run(
      [in, of, made, stop = stop_] {
        if (stop.stop_requested()) {
          throw std::system_error{std::make_error_code(std::errc::operation_canceled), "the server is stopping"};
        }
        *made = std::make_shared<registration>(in, of);
      },
      [this, which = of.get(), made, then = std::move(then)](const std::exception_ptr& error) {
        then(std::move(*made), error);
        if (error) {
          on_gone(which);
        }
      });
}

void registration_cache::destroy(registration_ptr r, done then) {
  const auto* const of = &r->version();
  auto last = std::make_shared<registration_ptr>(std::move(r));
  closers_.run([last] { last->reset(); },
               [this, of, then = std::move(then)](const std::exception_ptr&) {
                 then();
                 on_gone(of);
               });
}

void registration_cache::on_gone(const buffer_version* of) {
  const auto left = existing_.find(of);
  if (--left->second == 0) {
    existing_.erase(left);
    tell_if_gone(of);
  }
}

void registration_cache::tell_if_gone(const buffer_version* of) {
  const auto found = retiring_.find(of);
  if (found != retiring_.end() && !existing_.contains(of)) {
    const auto then = std::move(found->second);
    retiring_.erase(found);
    then();
  }
}

void registration_cache::acquire(const principal_domain_ptr& in, const buffer_version_ptr& of, acquired then) {
  if (isolation_ == isolation::lease) {
    make(in, of, std::move(then));
    return;
  }
  const key which{in.get(), of.get()};
  auto& cached = entries_[which];
  if (cached.made) {
    ++cached.holders;
    then(cached.made, nullptr);
    return;
  }
  cached.gpu = of->gpu;
  cached.waiting.push_back(std::move(then));
  if (cached.waiting.size() > 1) {
    return;  // it is being made
  }
  make(in, of, [this, which](registration_ptr made, const std::exception_ptr& error) {
    on_made(which, std::move(made), error);
  });
}

void registration_cache::on_made(const key& which, registration_ptr made, const std::exception_ptr& error) {
  const auto found = entries_.find(which);
  if (found == entries_.end()) {
    if (made) {
      destroy(std::move(made), [] {});
    }
    return;
  }
  const auto waiting = std::exchange(found->second.waiting, {});
  if (!made) {
    entries_.erase(found);
  } else {
    found->second.made = made;
    found->second.holders = waiting.size();
  }
  // Whoever is told may release at once.
  for (const auto& tell : waiting) {
    tell(made, error);
  }
}

void registration_cache::release(registration_ptr r, done then) {
  const auto found = entries_.find({&r->domain(), &r->version()});
  if (isolation_ == isolation::lease || found == entries_.end()) {
    destroy(std::move(r), std::move(then));
    return;
  }
  r.reset();
  --found->second.holders;
  if (found->second.retired) {
    destroy_if_unused(found, std::move(then));
  } else {
    then();
  }
}

void registration_cache::destroy_if_unused(std::map<key, entry>::iterator which, done then) {
  auto& unused = which->second;
  if (unused.holders > 0 || !unused.made) {
    then();
    return;
  }
  auto last = std::move(unused.made);
  entries_.erase(which);
  destroy(std::move(last), std::move(then));
}

void registration_cache::retire(const buffer_version_ptr& of, done then) {
  retiring_.emplace(of.get(), std::move(then));
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto current = next++;
    if (current->first.second == of.get()) {
      current->second.retired = true;
      destroy_if_unused(current, [] {});
    }
  }
  tell_if_gone(of.get());
}

void registration_cache::abandon(const principal_domain& domain) {
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto current = next++;
    if (current->first.first == &domain) {
      current->second.retired = true;
      destroy_if_unused(current, [] {});
    }
  }
}

void registration_cache::abandon(const memory::gpu& gpu) {
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto current = next++;
    if (current->second.gpu.get() == &gpu) {
      current->second.retired = true;
      destroy_if_unused(current, [] {});
    }
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
