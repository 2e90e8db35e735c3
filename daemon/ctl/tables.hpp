#pragma once

// The server's answers, for people.

#include <boost/json/object.hpp>
#include <string>

namespace gpurdma::ctl {

/// The answer to `command`, as lines; members that it does not have are left out or "-".
[[nodiscard]] std::string describe(const std::string& command, const boost::json::object& answer);

}  // namespace gpurdma::ctl
