#pragma once

#include <string>

namespace gpurdma::client {

/// Exit statuses of gpurdma-read.
enum class exit_status {
  done = 0,
  usage = 1,
  cannot_connect = 2,
  refused = 3,
  transfer_failed = 4,
  data_wrong = 5,
  cannot_write = 6,
};

/// Why a read did not succeed: for the exit status and for a person.
struct failure {
  exit_status status = exit_status::transfer_failed;
  std::string what;
};

}  // namespace gpurdma::client
