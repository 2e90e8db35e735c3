// Pools of every shape: allocated, filled, checksummed, exported, freed.

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "memory/byte_size.hpp"
#include "memory/cuda_memory.hpp"
#include "memory/loader.hpp"
#include "tests/gpu/report.hpp"

namespace gpurdma::gpu_report {
namespace {

using memory::cuda_memory;

std::uint64_t page_size() { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }
std::uint64_t in_pages(std::uint64_t size) { return (size + page_size() - 1) / page_size() * page_size(); }

/// Bytes of a dma-buf, as its descriptor says.
std::uint64_t descriptor_size(int fd) {
  const auto end = lseek(fd, 0, SEEK_END);
  require(end >= 0, "the dma-buf's size cannot be had by lseek");
  return static_cast<std::uint64_t>(end);
}

void expect_export(const memory::dma_buf& made, std::uint64_t address, std::uint64_t size) {
  require(made.offset() == address % page_size(),
          format("offset %llu of an export from %#llx", static_cast<unsigned long long>(made.offset()),
                 static_cast<unsigned long long>(address)));
  require(made.size() == size, "an export's size is not what was asked for");
  const auto expected = in_pages(made.offset() + size);
  require(descriptor_size(made.fd()) == expected,
          format("the descriptor has %llu bytes, not %llu", static_cast<unsigned long long>(descriptor_size(made.fd())),
                 static_cast<unsigned long long>(expected)));
}

void check_exports(cuda_memory& of) {
  const auto first = of.export_dma_buf();
  require(first.get() == of.export_dma_buf().get(), "two exports of one buffer at a time");
  require(of.address() % page_size() == 0, "a buffer does not begin a page");
  expect_export(*first, of.address(), of.size());
  const auto size = std::uint64_t{of.size()};
  // Interior parts: unaligned begin, unaligned end, both, a single byte, the last one.
  for (const auto& [offset, part] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 1}, {1, size - 1}, {size / 3, size / 3 + 1}, {size - 1, 1}, {in_pages(size / 2), size / 4 + 13}}) {
    if (part != 0 && offset < size && part <= size - offset) {
      expect_export(*of.device()->export_dma_buf(of.address() + offset, part), of.address() + offset, part);
    }
  }
}

struct shape {
  unsigned buffers;
  std::uint64_t size;  // of each, bytes
};

/// Allocates, fills, checksums, exports and frees the buffers of `s`. Every third counts, so that checksums differ.
void run_pool(const context& c, const shape& s) {
  std::vector<std::unique_ptr<cuda_memory>> pool;
  std::vector<memory::content_checksums> sums;
  std::vector<std::shared_ptr<const memory::dma_buf>> exports;
  for (unsigned i = 0; i < s.buffers; ++i) {
    auto& m = *pool.emplace_back(std::make_unique<cuda_memory>(c.gpu, s.size));
    const auto source = i % 3 == 0 ? memory::content_source{memory::counting_fill{}}
                                   : memory::content_source{memory::byte_fill{static_cast<std::byte>(i)}};
    sums.push_back(memory::load(m, source, {}));
    if (c.gpu->info().dma_buf_supported) {
      exports.push_back(m.export_dma_buf());
      expect_export(*exports.back(), m.address(), m.size());
      if (i % 64 == 0) {
        check_exports(m);
      }
    }
  }
  for (unsigned i = 0; i < s.buffers; ++i) {
    // The checksum of constant bytes was never read back from the GPU: this is the test of it, too.
    require(memory::checksum(*pool[i], {}) == sums[i], "checksums of buffer " + std::to_string(i) + " differ");
  }
}

std::string run_pools(context& c, const std::vector<shape>& shapes, unsigned rounds) {
  run_pool(c, shapes.front());  // what CUDA keeps for itself
  const auto free_before = c.gpu->free_bytes();
  const auto descriptors_before = open_descriptors();
  std::uint64_t total = 0;
  unsigned done = 0;
  unsigned too_large = 0;
  for (; done < rounds; ++done) {
    const auto& s = shapes[done % shapes.size()];
    if (s.buffers * in_pages(s.size) + GiB > free_before) {
      ++too_large;
      continue;
    }
    run_pool(c, s);
    total += s.buffers * s.size;
    const auto now = c.gpu->free_bytes();
    // Under compute-sanitizer memory is freed later.
    require(c.quick || now == free_before,
            format("after round %u (%u x %llu bytes) %lld bytes of GPU memory are missing", done, s.buffers,
                   static_cast<unsigned long long>(s.size),
                   static_cast<long long>(free_before) - static_cast<long long>(now)));
    require(open_descriptors() == descriptors_before, format("after round %u descriptors are left open", done));
  }
  require(too_large == 0 || too_large < rounds, "the GPU has too little free memory for any of the pools");
  return format("%u pools, %s in all; free memory and %zu descriptors as before%s", done - too_large,
                memory::format_byte_size(total).c_str(), descriptors_before,
                too_large != 0 ? format("; %u left out, too large for this GPU", too_large).c_str() : "");
}

}  // namespace

void check_pools(context& c) {
  report::section("Pools");
  const std::vector<shape> small{{1, 1 * MiB}, {3, 4096}, {7, 5'000}, {2, 1}, {5, 3 * MiB + 17}, {16, 64 * KiB + 1}};
  c.out.check("small pools", [&] { return run_pools(c, small, c.quick ? 6 : 30); });
  if (c.quick) {
    return;
  }
  const std::vector<shape> large{{256, 4 * KiB},   {1, 1 * GiB},     {256, 1 * MiB}, {10, 100 * MiB + 1},
                                 {256, 400 * MiB}, {1, 100 * GiB},   {64, 16 * MiB}, {100, 1 * GiB},
                                 {2, 3 * GiB + 5}, {1, 10 * GiB - 1}};
  c.out.check("100 pools of up to 256 buffers and up to 100 GiB", [&] { return run_pools(c, large, 100); });
  c.out.check("dma-buf", [&]() -> std::string {
    if (!c.gpu->info().dma_buf_supported) {
      throw skip{error_of([&] { static_cast<void>(cuda_memory{c.gpu, MiB}.export_dma_buf()); }).what()};
    }
    const auto before = open_descriptors();
    {
      cuda_memory m{c.gpu, 5 * MiB + 123};
      auto held = m.export_dma_buf();
      require(open_descriptors() == before + 1, "an export is not one descriptor");
      check_exports(m);
      held.reset();
      require(open_descriptors() == before, "a descriptor stays open after its last user");
      require(m.export_dma_buf() != nullptr, "a buffer cannot be exported again");
    }
    require(open_descriptors() == before, "a descriptor is left open");
    return "whole buffers and interior parts: offset and size right, one descriptor for all users, closed after the "
           "last";
  });
}

}  // namespace gpurdma::gpu_report
