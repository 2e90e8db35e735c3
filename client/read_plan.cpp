#include "client/read_plan.hpp"

#include <algorithm>

namespace gpurdma::client {

read_plan::read_plan(range what, std::uint32_t chunk_size, std::uint32_t block_size)
    : what_{what},
      chunk_size_{chunk_size},
      block_size_{block_size},
      end_{what.offset + what.length},
      position_{what.offset} {}

std::uint64_t read_plan::end_of_block(std::uint64_t block) const noexcept {
  // Compared without adding, for the last block may end where 64 bits do.
  const auto begin = block * block_size_;
  return begin + std::min<std::uint64_t>(block_size_, what_.buffer_size - begin);
}

std::optional<chunk> read_plan::next() {
  if (finished()) {
    return std::nullopt;
  }
  const auto block = position_ / block_size_;
  const auto block_end = end_of_block(block);
  const auto length = std::min<std::uint64_t>({chunk_size_, block_end - position_, end_ - position_});
  const chunk made{.offset = position_,
                   .length = static_cast<std::uint32_t>(length),
                   .block = block,
                   .begins_block = position_ == block * block_size_,
                   .ends_block = position_ + length == block_end};
  position_ += length;
  return made;
}

bool read_plan::covers_block(std::uint64_t block) const noexcept {
  return block * block_size_ >= what_.offset && end_of_block(block) <= end_;
}

}  // namespace gpurdma::client
