// The GPU's CRC32C against the CPU's.

#include <algorithm>
#include <span>
#include <vector>

#include "memory/checksum.hpp"
#include "memory/cuda_memory.hpp"
#include "memory/host_memory.hpp"
#include "memory/loader.hpp"
#include "tests/gpu/report.hpp"

namespace gpurdma::gpu_report {
namespace {

using memory::checksum_block_size;
using memory::cuda_memory;

/// The same random bytes on both sides.
class mirrored {
 public:
  mirrored(const context& c, std::size_t size) : host_(size), gpu_{c.gpu, size} {
    fill_random(host_.data(), size, size);
    gpu_.write(0, host_);
  }
  /// Compares the blocks of a part, and the whole part. Throws failure.
  void compare(std::size_t begin, std::size_t size) const {
    const auto part = std::span{host_}.subspan(begin, size);
    std::vector<std::uint32_t> sums(memory::block_count(size));
    gpu_.device()->checksum(gpu_.address() + begin, size, sums);
    std::uint32_t joined = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto offset = i * checksum_block_size;
      const auto block = part.subspan(offset, std::min(checksum_block_size, size - offset));
      require(sums[i] == memory::crc32c(block), format("block %zu of %zu bytes from %zu: %08x, the CPU has %08x", i,
                                                       size, begin, sums[i], memory::crc32c(block)));
      joined = memory::crc32c_combine(joined, sums[i], block.size());
    }
    require(joined == memory::crc32c(part), format("%zu bytes from %zu, combined", size, begin));
  }

 private:
  std::vector<std::byte> host_;
  cuda_memory gpu_;
};

std::string compare_short(const context& c) {
  const mirrored data{c, 8'192};
  std::size_t count = 0;
  const auto compare = [&](std::size_t begin, std::size_t size) {
    data.compare(begin, size);
    ++count;
  };
  const std::size_t stride = c.quick ? 97 : 1;
  for (std::size_t size = 0; size <= 5'000; size += stride) {
    compare(size * 7 % 17, size);
    compare(size * 5 % 131, size);
  }
  for (std::size_t begin = 0; begin <= (c.quick ? 3U : 16U); ++begin) {
    for (std::size_t size = 0; size <= 300; size += stride) {
      compare(begin, size);
    }
    for (const std::size_t rows : {1U, 2U, 3U, 4U}) {
      for (std::size_t size = rows * 1024 - 8; size <= rows * 1024 + 8; size += c.quick ? 8 : 1) {
        compare(begin, size);
      }
    }
  }
  return format("%zu lengths and alignments", count);
}

std::string compare_blocks(const context& c) {
  const mirrored data{c, 5 * checksum_block_size + 4'096};
  std::size_t count = 0;
  for (std::size_t blocks = 1; blocks <= (c.quick ? 2U : 5U); ++blocks) {
    for (const std::size_t begin : {0U, 1U, 2U, 3U, 4U, 13U, 127U, 128U, 255U, 1'024U}) {
      for (const int beyond : {-1'025, -1, 0, 1, 127, 1'024, 2'048}) {
        data.compare(begin, static_cast<std::size_t>(static_cast<long>(blocks * checksum_block_size) + beyond));
        ++count;
      }
    }
  }
  return format("%zu lengths and alignments of whole and cut blocks", count);
}

/// A part of counting memory that begins at an odd address and is longer than 4 GiB.
std::string compare_beyond_4_GiB(const context& c) {
  const auto size = 4 * GiB + 5;
  const std::size_t begin = 3;
  cuda_memory gpu{c.gpu, size + begin};
  gpu.fill_counting(0, size + begin);
  memory::host_memory host{size + begin};
  memory::load(host, memory::counting_fill{}, {});
  std::vector<std::uint32_t> sums(memory::block_count(size));
  gpu.device()->checksum(gpu.address() + begin, size, sums);
  std::uint32_t joined = 0;
  std::uint64_t left = size;
  for (const auto sum : sums) {
    const auto block = std::min<std::uint64_t>(left, checksum_block_size);
    joined = memory::crc32c_combine(joined, sum, block);
    left -= block;
  }
  const auto expected = memory::crc32c(host.bytes().subspan(begin));
  require(joined == expected, format("%08x, the CPU has %08x", joined, expected));
  require(memory::checksum(gpu, {}) == memory::checksum(host, {}), "blocks of the whole differ");
  return format("%zu bytes from an odd address: %08x on both", static_cast<std::size_t>(size), joined);
}

std::string find_flipped_bits(const context& c) {
  const std::size_t size = 3 * checksum_block_size + 77;
  cuda_memory m{c.gpu, size};
  const auto before = memory::load(m, memory::counting_fill{}, {});
  for (const std::size_t at : {std::size_t{0}, checksum_block_size - 1, 2 * checksum_block_size, size - 1}) {
    std::byte value{};
    m.read(at, {&value, 1});
    const auto flipped = value ^ std::byte{0x10};
    m.write(at, {&flipped, 1});
    const auto now = memory::checksum(m, {});
    for (std::size_t i = 0; i < now.blocks.size(); ++i) {
      require((now.blocks[i] != before.blocks[i]) == (i == at / checksum_block_size),
              format("block %zu after a flip at %zu", i, at));
    }
    m.write(at, {&value, 1});
  }
  require(memory::checksum(m, {}) == before, "flipped back, and still another checksum");
  return "each in its block and no other";
}

}  // namespace

void check_checksums(context& c) {
  report::section("CRC32C on the GPU, against the CPU's");
  c.out.check("short parts", [&] { return compare_short(c); });
  c.out.check("blocks", [&] { return compare_blocks(c); });
  c.out.check("flipped bits are found", [&] { return find_flipped_bits(c); });
  if (!c.quick) {
    c.out.check("beyond 4 GiB", [&] { return compare_beyond_4_GiB(c); });
  }
}

}  // namespace gpurdma::gpu_report
