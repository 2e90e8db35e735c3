// Ratios to what plain CUDA does, each the median of interleaved pairs.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "memory/byte_size.hpp"
#include "memory/cuda_memory.hpp"
#include "memory/loader.hpp"
#include "memory/staging.hpp"
#include "tests/gpu/bare_cuda.hpp"
#include "tests/gpu/report.hpp"

namespace gpurdma::gpu_report {
namespace {

using memory::cuda_memory;
using memory::file_source;

constexpr unsigned pairs = 11;

struct spread {
  double least;
  double median;
  double most;
};
spread spread_of(std::vector<double> of) {
  std::ranges::sort(of);
  return {of.front(), of[of.size() / 2], of.back()};
}
std::string text_of(const spread& s) { return format("%.3g (%.3g to %.3g)", s.median, s.least, s.most); }

struct comparison {
  std::vector<double> ours;
  std::vector<double> plain;

  /// Calls both in turn, after one of each that does not count; they return rates or times.
  void run(const std::function<double()>& our, const std::function<double()>& plainly, unsigned count = pairs) {
    for (unsigned i = 0; i <= count; ++i) {
      const auto o = our();
      const auto p = plainly();
      if (i != 0) {
        ours.push_back(o);
        plain.push_back(p);
      }
    }
  }
  [[nodiscard]] spread ratio() const {
    std::vector<double> ratios;
    std::ranges::transform(ours, plain, std::back_inserter(ratios), [](double o, double p) { return o / p; });
    return spread_of(ratios);
  }
  [[nodiscard]] std::string table(const char* our_name, const char* plain_name, const char* unit) const {
    return format(
        "median (least to most) of %zu pairs\n          %-44s %s %s\n          %-44s %s %s\n          %-44s %s",
        ours.size(), our_name, text_of(spread_of(ours)).c_str(), unit, plain_name, text_of(spread_of(plain)).c_str(),
        unit, "ratio", text_of(ratio()).c_str());
  }
};

double rate(std::uint64_t bytes, const std::function<void()>& action) {
  return static_cast<double>(bytes) / seconds_of(action) / 1e9;
}

/// How fast `readers` threads read a file into memory of their own, without a GPU: what a load cannot exceed.
double read_rate(const scratch_file& file, std::uint64_t size, unsigned readers, std::byte* memory, std::size_t piece) {
  const int fd = ::open(file.path().c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0, "cannot open the file");
  std::atomic<std::uint64_t> next{0};
  const auto result = rate(size, [&] {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < readers; ++i) {
      threads.emplace_back([&, to = memory + 2 * i * piece] {
        for (unsigned turn = 0;; ++turn) {
          const auto at = next.fetch_add(piece);
          if (at >= size || ::pread(fd, to + turn % 2 * piece, piece, static_cast<off_t>(at)) <= 0) {
            return;
          }
        }
      });
    }
  });
  ::close(fd);
  return result;
}

void try_options(cuda_memory& m, const scratch_file& file, std::byte* pinned) {
  const auto usual = memory::staging().options();
  for (const std::size_t piece : {1 * MiB, 2 * MiB, 4 * MiB, 8 * MiB}) {
    auto line = format("          pieces of %zu MiB:", piece / MiB);
    for (const unsigned readers : {4U, 8U, 12U, 16U, 24U}) {
      memory::staging().configure({.limit = GiB, .piece = piece, .readers = readers, .depth = 3});
      std::vector<double> rates;
      for (int i = 0; i < 4; ++i) {
        rates.push_back(rate(m.size(), [&] { memory::load(m, file_source{file.path()}, {}); }));
      }
      line += format("  %u readers %.1f GB/s (reading alone %.1f)", readers, *std::ranges::max_element(rates),
                     read_rate(file, m.size(), readers, pinned, piece));
    }
    report::line(line);
  }
  memory::staging().configure(usual);
}

void measure_load(context& c) {
  const auto size = c.quick ? 16 * MiB : 6 * GiB;
  const auto pinned_size = c.quick ? 16 * MiB : 512 * MiB;
  const scratch_file file{c.folder, size};
  cuda_memory m{c.gpu, size};
  const bare::device_memory plain{pinned_size};
  const bare::pinned pinned{pinned_size};
  std::memset(pinned.data(), 1, pinned_size);
  const auto copy_to = [&](std::uint64_t address) {
    return rate(size, [&] {
      for (std::uint64_t done = 0; done < size; done += pinned_size) {
        bare::copy_to_device(address, pinned.data(), pinned_size);
      }
    });
  };
  comparison result;
  result.run([&] { return rate(size, [&] { memory::load(m, file_source{file.path()}, {}); }); },
             [&] { return copy_to(plain.address()); }, c.quick ? 1 : pairs);
  c.out.check("load of a file in the page cache, at least 0.8 of a plain copy", [&] {
    const auto text = result.table("load", "pinned cudaMemcpy to the GPU", "GB/s");
    require(c.quick || result.ratio().median >= 0.8, text);
    return text;
  });
  if (!c.quick) {
    report::line(format("          plain copy to memory with SYNC_MEMOPS: %.1f GB/s", copy_to(m.address())));
    try_options(m, file, static_cast<std::byte*>(pinned.data()));
  }
}

void measure_checksum(context& c) {
  const auto size = c.quick ? 8 * MiB : std::min(32 * GiB, c.gpu->free_bytes() / 2 / GiB * GiB);
  cuda_memory m{c.gpu, size};
  memory::load(m, memory::counting_fill{}, {});
  comparison result;
  result.run([&] { return rate(size, [&] { static_cast<void>(memory::checksum(m, {})); }); },
             [&] { return rate(size, [&] { bare::read_all(m.address(), size); }); }, c.quick ? 1 : 2 * pairs);
  c.out.check("CRC32C, at least 0.5 of the GPU's read bandwidth", [&] {
    const auto text = result.table("checksum", "a kernel that only reads", "GB/s");
    require(c.quick || result.ratio().median >= 0.5, text);
    return text;
  });
}

/// Seconds to allocate and load buffers from constant bytes, by `threads` threads, as a daemon starts.
double start_pool(const context& c, unsigned count, std::uint64_t size, unsigned threads) {
  std::vector<std::unique_ptr<cuda_memory>> pool(count);
  std::atomic<unsigned> next{0};
  return seconds_of([&] {
    std::vector<std::jthread> loaders;
    for (unsigned i = 0; i < threads; ++i) {
      loaders.emplace_back([&] {
        for (auto n = next++; n < count; n = next++) {
          pool[n] = std::make_unique<cuda_memory>(c.gpu, size);
          memory::load(*pool[n], memory::byte_fill{std::byte{'R'}}, {});
        }
      });
    }
  });
}

double start_plainly(unsigned count, std::uint64_t size) {
  std::vector<std::uint64_t> made(count);
  const auto seconds = seconds_of([&] { bare::make_pool(made.data(), count, size); });
  bare::free_pool(made.data(), count);
  return seconds;
}

void measure_start(context& c) {
  const unsigned count =
      c.quick ? 4 : static_cast<unsigned>(std::min<std::uint64_t>(100, c.gpu->free_bytes() / GiB - 2));
  const auto size = c.quick ? MiB : GiB;
  for (const unsigned threads : {1U, 2U}) {
    comparison result;
    result.run([&] { return 1e3 * start_pool(c, count, size, threads); },
               [&] { return 1e3 * start_plainly(count, size); }, c.quick ? 1 : pairs);
    c.out.check(format("start of a pool of %u x %s without sources by %u thread%s, at most 1.2 of bare calls", count,
                       memory::format_byte_size(size).c_str(), threads, threads == 1 ? "" : "s"),
                [&] {
                  const auto text = result.table("allocate and load", "cudaMalloc and cudaMemset", "ms");
                  require(c.quick || result.ratio().median <= 1.2, text);
                  return text;
                });
  }
}

}  // namespace

void measure(context& c) {
  report::section("Speed");
  // A measurement that cannot be made is a check that failed.
  for (const auto& [name, run] :
       std::vector<std::pair<const char*, void (*)(context&)>>{{"speed of loading", measure_load},
                                                               {"speed of checksums", measure_checksum},
                                                               {"speed of starting", measure_start}}) {
    try {
      run(c);
    } catch (const std::exception& e) {
      c.out.check(name, [&]() -> std::string { throw failure{e.what()}; });
    }
  }
}

}  // namespace gpurdma::gpu_report
