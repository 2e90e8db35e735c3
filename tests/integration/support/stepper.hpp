#pragma once

// A peer in a process of its own, which can be killed at any step.

#include <string>
#include <vector>

#include "tests/integration/support/process.hpp"

namespace gpurdma::test {

/// The steps of a read, in order. A stepper that was told to stop at one has taken it.
inline const std::vector<std::string> steps{"resolved", "requested", "connected", "open_sent",
                                            "leased",   "reading",   "read",      "released"};

/// Starts a process that reads buffer `demo` up to `step`, says "at STEP" and waits for a line on standard input.
[[nodiscard]] std::vector<std::string> stepper_command(const std::string& step);

/// What such a process does; its exit status.
int stepper_main(const std::string& step);

}  // namespace gpurdma::test
