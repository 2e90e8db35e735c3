#pragma once

// gpurdma-server --doctor: what this machine can serve, and what is in the way.

#include <filesystem>

#include "daemon/doctor/findings.hpp"
#include "daemon/doctor/host_checks.hpp"

namespace gpurdma::daemon::doctor {

struct options {
  std::filesystem::path config;
  bool config_required = true;  ///< else the doctor does without, where there is no such file
  kernel_files kernel{};
};

/// Makes every check, one after the other, each with a limit of time. Does not throw for what it finds.
[[nodiscard]] checklist examine(const options& o);

}  // namespace gpurdma::daemon::doctor
