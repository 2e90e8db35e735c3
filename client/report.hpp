#pragma once

#include <string>

#include "client/options.hpp"
#include "client/outcome.hpp"

namespace gpurdma::client {

/// "read 4096 bytes, data OK": for people.
[[nodiscard]] std::string summary(const outcome& of);
/// The table of --list.
[[nodiscard]] std::string table(const outcome& of);
/// One JSON object, for scripts; docs/operations.md names its members.
[[nodiscard]] std::string json(const options& asked, const outcome& of);

}  // namespace gpurdma::client
