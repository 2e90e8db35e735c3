#pragma once

// Bytes to messages and back. Total: no input makes it throw (but for lack of memory), read past the end or loop.

#include <boost/system/result.hpp>
#include <cstddef>
#include <span>
#include <system_error>
#include <vector>

#include "protocol/message.hpp"

namespace gpurdma::protocol {

template <typename T>
using result = boost::system::result<T, std::error_code>;

/// The message that `bytes` are, all of them. malformed_message where the type is unknown, the length is not the
/// type's, a reserved byte is not zero, or a name, count or sentence breaks its rule. decode(encode(m)) == m, and
/// encode(decode(b)) == b
/// (but for a code that this version does not know, which is read as `unspecified`).
[[nodiscard]] result<message> decode(std::span<const std::byte> bytes);

/// The bytes of `m`, at most max_reply_size. A sentence too long for the wire is cut, and a character that it may
/// not hold becomes '?'. Expects names, and counts of checksums and entries, within their bounds.
[[nodiscard]] std::vector<std::byte> encode(const message& m);

}  // namespace gpurdma::protocol
