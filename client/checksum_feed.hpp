#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "client/failure.hpp"
#include "client/link.hpp"
#include "client/read_plan.hpp"

namespace gpurdma::client {

/// The checksums of the blocks that a plan touches, asked for page by page in their order.
class checksum_feed {
 public:
  /// `on_page` is given the checksums of blocks `first`, first + 1 …; `on_failure` why there are none. Both may ask on.
  using page = std::function<void(std::uint64_t first, std::span<const std::uint32_t> values)>;
  using failed = std::function<void(failure why)>;

  checksum_feed(link& over, const protocol::lease& lent, const read_plan& of, page on_page, failed on_failure);

  /// Asks for the next page, unless one is asked for or none is left.
  void ask();
  [[nodiscard]] bool complete() const noexcept { return next_ > last_; }

 private:
  link& link_;
  std::uint64_t lease_id_;
  std::uint64_t next_;  ///< block not yet told
  std::uint64_t last_;
  bool asked_ = false;
  page on_page_;
  failed on_failure_;
};

}  // namespace gpurdma::client
