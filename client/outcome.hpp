#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/failure.hpp"
#include "protocol/message.hpp"

namespace gpurdma::client {

/// What --bench measured.
struct bench_figures {
  std::uint64_t reads = 0;
  std::uint32_t read_size = 0;  ///< bytes of each
  std::uint32_t depth = 0;      ///< READs under way at once
  /// Microseconds from posting a READ to taking its completion; with a depth above 1 it has waited for those before it.
  double latency_min = 0;
  double latency_median = 0;
  double latency_p99 = 0;
};

/// What a read came to.
struct outcome {
  std::optional<failure> failed;
  std::uint64_t bytes = 0;      ///< read and handed on
  std::uint64_t verified = 0;   ///< of them, in blocks whose checksum was right
  double seconds_to_lease = 0;  ///< from connecting, the server's name being resolved, to the first lease
  double seconds = 0;           ///< from the first READ to the last byte handed on
  std::string peer;
  std::uint64_t version = 0;
  std::vector<protocol::listing::entry> buffers;  ///< of --list
  std::optional<bench_figures> bench;             ///< of --bench
};

}  // namespace gpurdma::client
