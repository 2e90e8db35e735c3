#include "memory/host_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <system_error>
#include <vector>

namespace gpurdma::memory {
namespace {

std::vector<std::byte> filled(std::size_t size, int value) { return std::vector(size, static_cast<std::byte>(value)); }

TEST(host_memory, is_zeroed_and_begins_a_page) {
  const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  for (const std::size_t size : {std::size_t{1}, std::size_t{4095}, std::size_t{4096}, std::size_t{1'000'001}}) {
    const host_memory m{size};
    EXPECT_EQ(m.size(), size);
    EXPECT_EQ(m.bytes().size(), size);
    EXPECT_EQ(m.address() % page, 0U);
    EXPECT_TRUE(std::ranges::all_of(m.bytes(), [](std::byte b) { return b == std::byte{}; }));
  }
}

TEST(host_memory, says_the_address_of_its_bytes) {
  host_memory m{10};
  EXPECT_EQ(m.address(), reinterpret_cast<std::uintptr_t>(m.bytes().data()));
}

TEST(host_memory, gives_back_what_was_written_and_nothing_else_changes) {
  host_memory m{10'000};
  m.write(5'000, filled(3, 7));
  m.write(9'999, filled(1, 9));

  std::vector<std::byte> expected(10'000);
  std::fill_n(expected.begin() + 5'000, 3, std::byte{7});
  expected.back() = std::byte{9};
  auto found = filled(10'000, 0xFF);
  m.read(0, found);
  EXPECT_EQ(found, expected);

  auto middle = filled(5, 0xFF);
  m.read(4'999, middle);
  EXPECT_EQ(middle, std::vector(expected.begin() + 4'999, expected.begin() + 5'004));
}

TEST(host_memory, copies_nothing_at_its_very_end) {
  host_memory m{10};
  m.write(10, {});
  m.read(10, {});
}

TEST(host_memory, says_how_much_cannot_be_had) {
  constexpr auto far_too_much = std::size_t{1} << 62U;
  try {
    const host_memory m{far_too_much};
    FAIL() << "got it";
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::not_enough_memory);
    EXPECT_NE(std::string{e.what()}.find("4611686018427387904 bytes"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace gpurdma::memory
