#include "daemon/gpu_watch.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <system_error>
#include <utility>

#include "daemon/event.hpp"
#include "memory/topology.hpp"

namespace gpurdma::daemon {

gpu_watch::gpu_watch(boost::asio::io_context& io, lost on_lost)
    : timer_{io}, worker_{io, 1}, on_lost_{std::move(on_lost)} {}

gpu_watch::~gpu_watch() { worker_.join(); }

bool gpu_watch::add(const memory::gpu_ptr& gpu) {
  if (std::find(gpus_.begin(), gpus_.end(), gpu) != gpus_.end()) {
    return false;
  }
  gpus_.push_back(gpu);
  if (gpus_.size() == 1) {
    arm();
  }
  return true;
}

void gpu_watch::stop() {
  stopped_ = true;
  timer_.cancel();
  gpus_.clear();
}

void gpu_watch::arm() {
  constexpr std::chrono::seconds interval{10};
  timer_.expires_after(interval);
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (!error && !stopped_) {
      check();
    }
  });
}

void gpu_watch::check() {
  using failure = std::pair<memory::gpu_ptr, std::string>;
  auto failures = std::make_shared<std::vector<failure>>();
  worker_.run(
      [gpus = gpus_, failures] {
        for (const auto& gpu : gpus) {
          try {
            gpu->check();
          } catch (const std::system_error& e) {
            if (memory::is_gpu_lost(e.code())) {
              failures->emplace_back(gpu, e.what());
            }
          }
        }
      },
      [this, failures](const std::exception_ptr&) {
        for (const auto& [gpu, why] : *failures) {
          report(*gpu, why);
        }
        if (!stopped_ && !gpus_.empty()) {
          arm();
        }
      });
}

void gpu_watch::report(const memory::gpu& which, const std::string& why) {
  const auto found = std::find_if(gpus_.begin(), gpus_.end(), [&](const auto& g) { return g.get() == &which; });
  if (found == gpus_.end()) {
    return;  // reported before
  }
  const auto kept = std::move(*found);
  gpus_.erase(found);
  on_lost_(*kept, why);
}

void report_placement(const std::vector<memory::gpu_ptr>& gpus, const std::vector<std::string>& rdma_devices) {
  std::vector<memory::named_pci_device> placed_gpus;
  std::vector<memory::named_pci_device> adapters;
  for (const auto& gpu : gpus) {
    if (auto pci = memory::find_pci_device(gpu->info().pci_address)) {
      placed_gpus.push_back({gpu->info().label(), std::move(*pci)});
    }
  }
  for (const auto& name : rdma_devices) {
    if (auto pci = memory::find_rdma_pci_device(name)) {
      adapters.push_back({name, std::move(*pci)});
    }
  }
  for (const auto& gpu : placed_gpus) {
    for (const auto& adapter : adapters) {
      const auto warning = memory::warn_of_distance(gpu, adapter, placed_gpus, adapters);
      emit(warning ? event_id::gpu_is_far : event_id::gpu_placed,
           {{"gpu", gpu.name},
            {"device", adapter.name},
            {"path", memory::describe(memory::distance_between(gpu.pci, adapter.pci))},
            {"why", warning.value_or("")}});
    }
  }
}

}  // namespace gpurdma::daemon
