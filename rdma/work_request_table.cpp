#include "rdma/work_request_table.hpp"

#include <stdexcept>

namespace gpurdma::rdma {
namespace {

constexpr unsigned slot_bits = 28;
constexpr std::uint64_t slot_mask = (std::uint64_t{1} << slot_bits) - 1;
constexpr std::uint64_t kind_mask = 0xF;

}  // namespace

std::uint64_t work_request_table::add(const entry& e) {
  if (free_.empty()) {
    if (slots_.size() > slot_mask) {
      throw std::length_error{"too many work requests are posted"};
    }
    slots_.emplace_back();
    free_.reserve(slots_.capacity());
    free_.push_back(static_cast<std::uint32_t>(slots_.size() - 1));
  }
  const auto index = free_.back();
  free_.pop_back();
  auto& s = slots_[index];
  s.what = e;
  s.used = true;
  ++s.generation;
  return (std::uint64_t{s.generation} << 32U) | (static_cast<std::uint64_t>(e.kind) << slot_bits) | index;
}

void work_request_table::end(std::uint32_t index) noexcept {
  slots_[index].used = false;
  free_.push_back(index);
}

std::optional<work_request_table::entry> work_request_table::take(std::uint64_t wr_id) noexcept {
  const auto index = static_cast<std::uint32_t>(wr_id & slot_mask);
  const auto kind = (wr_id >> slot_bits) & kind_mask;
  if (index >= slots_.size()) {
    return std::nullopt;
  }
  const auto& s = slots_[index];
  if (!s.used || s.generation != wr_id >> 32U || static_cast<std::uint64_t>(s.what.kind) != kind) {
    return std::nullopt;
  }
  const auto what = s.what;
  end(index);
  return what;
}

void work_request_table::forget(const work_owner& owner) noexcept {
  for (std::uint32_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].used && slots_[i].what.owner == &owner) {
      end(i);
    }
  }
}

}  // namespace gpurdma::rdma
