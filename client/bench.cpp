#include "client/bench.hpp"

#include <algorithm>
#include <utility>

namespace gpurdma::client {

bench_figures figures_of(std::vector<float> latencies) {
  std::sort(latencies.begin(), latencies.end());
  const auto last = latencies.size() - 1;
  constexpr std::size_t percent = 100;
  return {.reads = latencies.size(),
          .latency_min = latencies.front(),
          .latency_median = latencies[last / 2],
          .latency_p99 = latencies[last * (percent - 1) / percent]};
}

bench::bench(const options& asked, const protocol::lease& lent, const memory::gpu_ptr& gpu, std::uint32_t read_size,
             link& over, transfer_handler& handler)
    : options_{asked},
      lease_{lent},
      link_{over},
      handler_{handler},
      read_size_{read_size},
      places_{lent.length / read_size_},
      slots_(std::min<std::uint64_t>(asked.depth, asked.count)),
      landing_{over.domain(), slots_.size() * read_size_, gpu} {
  latencies_.reserve(asked.count);
}

void bench::start() {
  began_ = clock::now();
  for (std::uint32_t slot = 0; slot < slots_.size() && !stopped_; ++slot) {
    post(slot);
  }
}

void bench::post(std::uint32_t slot) {
  slots_[slot] = clock::now();
  const auto from = posted_ % places_ * read_size_;
  const auto to = landing_.address() + std::uint64_t{slot} * read_size_;
  if (auto why = link_.read(slot, to, landing_.lkey(), lease_, from, read_size_)) {
    stopped_ = true;
    handler_.on_transfer_failed(std::move(*why));
    return;
  }
  ++posted_;
}

void bench::on_read_done(std::uint32_t tag) {
  if (stopped_) {
    return;
  }
  ended_ = clock::now();
  latencies_.push_back(std::chrono::duration<float, std::micro>(ended_ - slots_.at(tag)).count());
  if (posted_ < options_.count) {
    post(tag);
  } else if (latencies_.size() == posted_) {
    handler_.on_transferred();
  }
}

void bench::report(outcome& to) const {
  if (latencies_.empty()) {
    return;
  }
  to.bytes = latencies_.size() * read_size_;
  to.seconds = std::chrono::duration<double>(ended_ - began_).count();
  to.bench = figures_of(latencies_);
  to.bench->read_size = read_size_;
  to.bench->depth = static_cast<std::uint32_t>(slots_.size());
}

}  // namespace gpurdma::client
