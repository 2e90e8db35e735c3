#include "memory/host_memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <cerrno>
#include <string>
#include <system_error>

namespace gpurdma::memory {

host_memory::host_memory(std::size_t size) : data_{nullptr}, size_{size} {
  void* const pages = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) {
    throw std::system_error{errno, std::system_category(),
                            "cannot allocate " + std::to_string(size) + " bytes of host memory"};
  }
  data_ = static_cast<std::byte*>(pages);
}

host_memory::~host_memory() { munmap(data_, size_); }

std::uint64_t host_memory::address() const noexcept { return std::bit_cast<std::uintptr_t>(data_); }

void host_memory::write(std::size_t offset, std::span<const std::byte> from) {
  assert(offset <= size_ && from.size() <= size_ - offset);
  std::copy(from.begin(), from.end(), bytes().subspan(offset).begin());
}

void host_memory::read(std::size_t offset, std::span<std::byte> to) const {
  assert(offset <= size_ && to.size() <= size_ - offset);
  std::copy_n(bytes().subspan(offset).begin(), to.size(), to.begin());
}

}  // namespace gpurdma::memory
