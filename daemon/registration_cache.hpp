#pragma once

// Which buffer version is registered on which device for which principal.

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "daemon/buffer_pool.hpp"
#include "daemon/config.hpp"
#include "rdma/device.hpp"
#include "rdma/memory_region.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::daemon {

/// Who is at the other end. A key of one principal is useless on another's queue pair.
enum class principal_id : std::uint64_t { anonymous = 0 };

/// A principal's protection domain on a device: of its queue pairs and of its registrations there.
struct principal_domain {
  rdma::device& device;
  principal_id principal;
  rdma::protection_domain domain;
};
using principal_domain_ptr = std::shared_ptr<principal_domain>;

/// A buffer version that may be read with `rkey()` until this is gone, which is before the memory goes.
class registration {
 public:
  /// Blocks. Throws std::system_error; rdma::no_gpu_path where the adapter cannot reach the GPU and may not be given a
  /// copy.
  registration(principal_domain_ptr in, buffer_version_ptr of);

  [[nodiscard]] std::uint32_t rkey() const noexcept { return made_.region.rkey(); }
  /// Of the buffer's first byte, as the key knows it.
  [[nodiscard]] std::uint64_t address() const noexcept { return made_.address; }
  [[nodiscard]] const buffer_version& version() const noexcept { return *of_; }
  [[nodiscard]] const principal_domain& domain() const noexcept { return *in_; }
  /// How the adapter reaches the bytes: "host", "dma-buf", "nvidia-peermem", "staged".
  [[nodiscard]] const char* path() const noexcept { return made_.path; }
  [[nodiscard]] bool staged() const noexcept { return made_.staged; }
  /// Why not by a better path; empty where there is none.
  [[nodiscard]] const std::string& why() const noexcept { return made_.why; }

 private:
  struct made {
    rdma::memory_region region;
    std::uint64_t address = 0;
    const char* path = "host";
    bool staged = false;
    std::string why = {};
  };
  static made make(ibv_pd& domain, const buffer_version& of);
  static made make_on_gpu(ibv_pd& domain, const buffer_version& of);
  static made make_staged(ibv_pd& domain, const buffer_version& of, const std::string& why);

  principal_domain_ptr in_;
  buffer_version_ptr of_;
  made made_;
};
using registration_ptr = std::shared_ptr<registration>;

/// With isolation `principal` a version is registered once per domain and kept until it is retired and nobody holds it;
/// with isolation `lease` each acquire() registers anew. Reactor thread only.
class registration_cache {
 public:
  /// Registers on `registrars`, until `stop` is requested; deregisters on `closers`, so that no key's death waits for
  /// a registration.
  registration_cache(rdma::workers& registrars, rdma::workers& closers, isolation keys, std::stop_token stop)
      : registrars_{registrars}, closers_{closers}, isolation_{keys}, stop_{std::move(stop)} {}

  using acquired = std::function<void(registration_ptr, std::exception_ptr error)>;
  using done = std::function<void()>;

  /// `then` is called at once where the registration is there, else from the reactor once it is.
  void acquire(const principal_domain_ptr& in, const buffer_version_ptr& of, acquired then);
  /// Each registration that acquire() gave is given back once. `then` is called when its key is dead, or at once where
  /// it is shared and goes on.
  void release(registration_ptr r, done then);
  /// Nobody acquires `of` from now on. `then` is called once no registration of it is left: no key opens its memory.
  void retire(const buffer_version_ptr& of, done then);
  /// Nobody acquires in `domain` from now on, whose device is gone: what is held goes when it is released.
  void abandon(const principal_domain& domain);
  /// Nobody acquires what `gpu` holds from now on: likewise.
  void abandon(const memory::gpu& gpu);
  /// Until the matching let_go(), `of` counts as registered: retire() tells nobody that its memory may go.
  void keep(const buffer_version_ptr& of) { ++existing_[of.get()]; }
  void let_go(const buffer_version* of) { on_gone(of); }
  /// Gives up every cached registration, on the workers.
  void clear();

 private:
  struct entry {
    registration_ptr made;
    std::vector<acquired> waiting;
    std::size_t holders = 0;  ///< that have yet to release
    bool retired = false;     ///< goes with its last holder
    memory::gpu_ptr gpu;      ///< that has the version's memory; null for host memory
  };
  using key = std::pair<const principal_domain*, const buffer_version*>;
  void make(const principal_domain_ptr& in, const buffer_version_ptr& of, acquired then);
  void on_made(const key& which, registration_ptr made, const std::exception_ptr& error);
  void destroy(registration_ptr r, done then);
  void destroy_if_unused(std::map<key, entry>::iterator which, done then);
  void on_gone(const buffer_version* of);
  void tell_if_gone(const buffer_version* of);

  rdma::workers& registrars_;
  rdma::workers& closers_;
  isolation isolation_;
  std::stop_token stop_;
  std::map<key, entry> entries_;
  std::map<const buffer_version*, std::size_t> existing_;  ///< registrations, there or being made, and keep()
  std::map<const buffer_version*, done> retiring_;
};

}  // namespace gpurdma::daemon
