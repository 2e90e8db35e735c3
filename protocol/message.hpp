#pragma once

// What is said over SEND/RECV once a connection stands. docs/protocol.md gives the layout of each on the wire.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "protocol/errc.hpp"

namespace gpurdma::protocol {

/// Bytes of the longest message that a client may send, and of the longest that a server sends.
inline constexpr std::size_t max_request_size = 256;
inline constexpr std::size_t max_reply_size = 512;

/// Bytes of a buffer's name: 1 to 64 of [A-Za-z0-9._-], the first no '.' or '-'.
inline constexpr std::size_t max_name_size = 64;

/// Bytes of an error's or a notice's sentence: printable ASCII.
inline constexpr std::size_t max_sentence_size = 240;

/// `open::length` that means "from the offset to the end of the buffer".
inline constexpr std::uint64_t to_the_end = ~std::uint64_t{0};

inline constexpr std::size_t max_checksums_in_reply = 120;
inline constexpr std::size_t max_buffers_in_listing = 5;

using digest = std::array<std::byte, 32>;

/// True for a name that a buffer may have.
[[nodiscard]] bool is_valid_name(std::string_view name) noexcept;

// --- requests of the client, each answered by the reply below it, or by `error` ---

/// Asks for a lease on `length` bytes of a buffer from `offset` on.
struct open {
  std::string name = {};
  std::uint64_t offset = 0;
  std::uint64_t length = to_the_end;
  bool operator==(const open&) const = default;
};

/// The right to read `length` bytes at `address` with `rkey`, on the connection's queue pair, for `duration_ms`.
struct lease {
  std::uint64_t id = 0;
  std::uint64_t address = 0;
  std::uint64_t length = 0;
  std::uint64_t buffer_size = 0;
  std::uint64_t version = 0;
  std::uint32_t rkey = 0;
  std::uint32_t duration_ms = 0;
  std::uint32_t block_size = 0;  ///< bytes that one checksum covers
  bool staged = false;           ///< the bytes are a copy in host memory of what the GPU holds
  digest content{};              ///< of the whole buffer; all zero where it is not known
  bool operator==(const lease&) const = default;
};

/// Asks for the CRC32C of blocks of a leased buffer version; block 0 begins at the buffer's first byte.
struct get_checksums {
  std::uint64_t lease_id = 0;
  std::uint64_t first_block = 0;
  std::uint32_t count = 0;  ///< 1 to max_checksums_in_reply
  bool operator==(const get_checksums&) const = default;
};

struct checksums {
  std::uint64_t first_block = 0;
  std::vector<std::uint32_t> values = {};
  bool operator==(const checksums&) const = default;
};

struct renew {
  std::uint64_t lease_id = 0;
  bool operator==(const renew&) const = default;
};

struct renewed {
  std::uint64_t lease_id = 0;
  std::uint32_t duration_ms = 0;
  bool operator==(const renewed&) const = default;
};

struct release {
  std::uint64_t lease_id = 0;
  std::uint64_t bytes_read = 0;  ///< as the client counts them, for the server's statistics
  bool operator==(const release&) const = default;
};

struct released {
  std::uint64_t lease_id = 0;
  bool operator==(const released&) const = default;
};

/// Asks for the buffers whose names sort after `after`, in the order of their bytes.
struct list {
  std::string after = {};  ///< empty for the first page
  bool operator==(const list&) const = default;
};

struct listing {
  struct entry {
    std::string name = {};
    std::uint64_t size = 0;
    std::uint64_t version = 0;
    bool staged = false;
    bool operator==(const entry&) const = default;
  };
  std::vector<entry> entries = {};
  bool more = false;  ///< another page follows the last name
  bool operator==(const listing&) const = default;
};

struct error {
  errc code = errc::unspecified;
  std::string sentence = {};
  bool operator==(const error&) const = default;
};

// --- said by either side ---

struct ping {
  bool operator==(const ping&) const = default;
};
struct pong {
  bool operator==(const pong&) const = default;
};

// --- said by the server unasked, with request id 0 ---

enum class notice_kind : std::uint16_t { shutting_down = 1, lease_revoked = 2, buffer_replaced = 3 };

struct notice {
  notice_kind kind = notice_kind::shutting_down;
  errc code = errc::unspecified;  ///< why
  std::uint64_t lease_id = 0;     ///< 0 where no single lease is meant
  std::string sentence = {};
  bool operator==(const notice&) const = default;
};

using body = std::variant<open, lease, get_checksums, checksums, renew, renewed, release, released, list, listing,
                          error, ping, pong, notice>;

/// A request carries an id of the client's choice, not 0; its answer repeats it.
struct message {
  std::uint32_t request_id = 0;
  body content = {};
  bool operator==(const message&) const = default;
};

}  // namespace gpurdma::protocol
