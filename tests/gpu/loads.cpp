// Files into GPU memory.

#include <algorithm>
#include <atomic>
#include <memory>
#include <stop_token>
#include <thread>
#include <vector>

#include "memory/byte_size.hpp"
#include "memory/cuda_memory.hpp"
#include "memory/host_memory.hpp"
#include "memory/loader.hpp"
#include "memory/staging.hpp"
#include "tests/gpu/report.hpp"

namespace gpurdma::gpu_report {
namespace {

using memory::cuda_memory;
using memory::file_source;

/// What the CPU finds in the file.
memory::content_checksums checksums_of(const scratch_file& file) {
  memory::host_memory host{memory::file_size(file.path())};
  return memory::load(host, file_source{file.path()}, {});
}

std::string compare_with_file(const context& c, std::uint64_t size) {
  const scratch_file file{c.folder, size};
  cuda_memory m{c.gpu, size};
  std::vector<std::uint64_t> progress;
  const auto sums = memory::load(m, file_source{file.path()}, {}, [&](auto done) { progress.push_back(done); });
  require(sums == checksums_of(file), "checksums of the load are not those of the file");
  require(memory::checksum(m, {}) == sums, "checksums of the memory are not those of the load");
  require(std::ranges::is_sorted(progress) && progress.back() == size, "progress is not told as it should be");
  memory::host_memory back{size};
  m.read(0, back.bytes());
  require(memory::checksum(back, {}) == sums, "what is read back is not the file");
  return memory::format_byte_size(size);
}

std::string load_in_parallel(const context& c) {
  const unsigned buffers = c.quick ? 4 : 64;
  const auto size = c.quick ? 3 * MiB + 1 : 64 * MiB + 4'097;
  const memory::staging_options bounded{
      .limit = (c.quick ? 4 : 32) * MiB, .piece = (c.quick ? 1 : 2) * MiB, .readers = 4, .depth = 2};
  const auto usual = memory::staging().options();
  memory::staging().configure(bounded);
  const scratch_file file{c.folder, size, 7};
  const auto expected = checksums_of(file);
  std::vector<std::unique_ptr<cuda_memory>> pool;
  for (unsigned i = 0; i < buffers; ++i) {
    pool.push_back(std::make_unique<cuda_memory>(c.gpu, size));
  }
  std::atomic<unsigned> right{0};
  const auto seconds = seconds_of([&] {
    std::vector<std::jthread> loads;
    for (auto& m : pool) {
      loads.emplace_back([&] {
        try {
          right += memory::load(*m, file_source{file.path()}, {}) == expected ? 1 : 0;
        } catch (const std::exception& e) {
          report::line(std::string{"        a load failed: "} + e.what());
        }
      });
    }
  });
  const auto peak = memory::staging().peak_bytes();
  memory::staging().configure(usual);
  require(memory::staging().pinned_bytes() == 0, "pinned memory is left");
  require(right == buffers, format("%u of %u loads are right", right.load(), buffers));
  require(peak <= bounded.limit, format("%zu bytes were pinned, more than allowed", peak));
  return format("%u buffers, %.1f GB/s, %s pinned at most of %s allowed", buffers,
                static_cast<double>(buffers) * static_cast<double>(size) / seconds / 1e9,
                memory::format_byte_size(peak).c_str(), memory::format_byte_size(bounded.limit).c_str());
}

std::string refuse_bad_files(const context& c) {
  const scratch_file file{c.folder, 8 * MiB};
  for (const auto size : {8 * MiB - 1, 8 * MiB + 1}) {
    cuda_memory m{c.gpu, size};
    require(error_of([&] { memory::load(m, file_source{file.path()}, {}); }).code() == std::errc::invalid_argument,
            "a file of another size is taken");
  }
  cuda_memory m{c.gpu, 8 * MiB};
  std::filesystem::last_write_time(file.path(), std::filesystem::file_time_type::clock::now() - std::chrono::hours{1});
  std::atomic<bool> cut{false};
  const auto error = error_of([&] {
    memory::load(m, file_source{file.path()}, {}, [&](auto) {
      if (!cut.exchange(true)) {
        std::filesystem::resize_file(file.path(), 8 * MiB - 1);
      }
    });
  });
  require(error.code() == std::errc::io_error, std::string{"a file that shrinks gives: "} + error.what());
  return error.what();
}

std::string stop_a_load(const context& c) {
  const scratch_file file{c.folder, 64 * MiB};
  cuda_memory m{c.gpu, 64 * MiB};
  std::stop_source stop;
  const auto error = error_of(
      [&] { memory::load(m, file_source{file.path()}, stop.get_token(), [&](auto) { stop.request_stop(); }); });
  require(error.code() == std::errc::operation_canceled, std::string{"another error: "} + error.what());
  require(memory::load(m, file_source{file.path()}, {}) == checksums_of(file), "the next load is wrong");
  return "given up at once, the next load is right";
}

}  // namespace

void check_loads(context& c) {
  report::section("Loads");
  for (const auto size : {std::uint64_t{1}, MiB, 4 * MiB + 1, 37 * MiB + 4'095}) {
    c.out.check("a file of " + std::to_string(size) + " bytes", [&] { return compare_with_file(c, size); });
  }
  if (!c.quick) {
    c.out.check("a file beyond 4 GiB", [&] { return compare_with_file(c, 4 * GiB + 12'345); });
  }
  c.out.check("buffers loaded in parallel", [&] { return load_in_parallel(c); });
  c.out.check("a file of another size, or cut while it is read", [&] { return refuse_bad_files(c); });
  c.out.check("a load given up", [&] { return stop_a_load(c); });
}

}  // namespace gpurdma::gpu_report
