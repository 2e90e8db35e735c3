#include "client/checksum_feed.hpp"

#include <algorithm>
#include <utility>

namespace gpurdma::client {

checksum_feed::checksum_feed(link& over, const protocol::lease& lent, const read_plan& of, page on_page,
                             failed on_failure)
    : link_{over},
      lease_id_{lent.id},
      next_{of.first_block()},
      last_{of.last_block()},
      on_page_{std::move(on_page)},
      on_failure_{std::move(on_failure)} {}

void checksum_feed::ask() {
  if (asked_ || complete()) {
    return;
  }
  asked_ = true;
  const auto count = std::min<std::uint64_t>(protocol::max_checksums_in_reply, last_ - next_ + 1);
  link_.request(protocol::get_checksums{lease_id_, next_, static_cast<std::uint32_t>(count)},
                [this](const protocol::body& answer) {
                  asked_ = false;
                  if (const auto* const e = std::get_if<protocol::error>(&answer)) {
                    on_failure_({exit_status::refused, "no checksums: " + sentence_of(*e)});
                    return;
                  }
                  const auto& values = std::get<protocol::checksums>(answer).values;
                  const auto first = std::exchange(next_, next_ + values.size());
                  on_page_(first, values);
                });
}

}  // namespace gpurdma::client
