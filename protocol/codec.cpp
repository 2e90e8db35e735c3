#include "protocol/codec.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "protocol/bytes.hpp"

namespace gpurdma::protocol {
namespace {

// Numbers of the message types on the wire; the order of `body` is of no matter to it.
enum class wire_type : std::uint16_t {
  open = 1,
  lease = 2,
  get_checksums = 3,
  checksums = 4,
  renew = 5,
  renewed = 6,
  release = 7,
  released = 8,
  list = 9,
  listing = 10,
  error = 11,
  ping = 12,
  pong = 13,
  notice = 14,
};

constexpr std::uint32_t staged_flag = 1;

void check_name(byte_reader& in, std::string_view name) { in.require(is_valid_name(name)); }

bool read_flag(byte_reader& in, std::uint32_t flag) {
  const auto flags = in.number<std::uint32_t>();
  in.require((flags & ~flag) == 0);
  return (flags & flag) != 0;
}

void write_flag(byte_writer& out, bool value, std::uint32_t flag) { out.number(value ? flag : std::uint32_t{0}); }

// A code of a later version is no error, but cannot be told from `unspecified` afterwards.
errc read_code(byte_reader& in) { return errc_from_wire(in.number<std::uint16_t>()); }

// One pair of read and write per message, field by field in wire order. Each knows nothing of header and length.

wire_type type_of(const open&) { return wire_type::open; }
void read(byte_reader& in, open& m) {
  m.offset = in.number<std::uint64_t>();
  m.length = in.number<std::uint64_t>();
  m.name = in.padded_text(max_name_size);
  check_name(in, m.name);
}
void write(byte_writer& out, const open& m) {
  out.number(m.offset);
  out.number(m.length);
  out.padded_text(m.name, max_name_size);
}

wire_type type_of(const lease&) { return wire_type::lease; }
void read(byte_reader& in, lease& m) {
  m.id = in.number<std::uint64_t>();
  m.address = in.number<std::uint64_t>();
  m.length = in.number<std::uint64_t>();
  m.buffer_size = in.number<std::uint64_t>();
  m.version = in.number<std::uint64_t>();
  m.rkey = in.number<std::uint32_t>();
  m.duration_ms = in.number<std::uint32_t>();
  m.block_size = in.number<std::uint32_t>();
  m.staged = read_flag(in, staged_flag);
  in.take(m.content);
}
void write(byte_writer& out, const lease& m) {
  out.number(m.id);
  out.number(m.address);
  out.number(m.length);
  out.number(m.buffer_size);
  out.number(m.version);
  out.number(m.rkey);
  out.number(m.duration_ms);
  out.number(m.block_size);
  write_flag(out, m.staged, staged_flag);
  out.raw(m.content);
}

wire_type type_of(const get_checksums&) { return wire_type::get_checksums; }
void read(byte_reader& in, get_checksums& m) {
  m.lease_id = in.number<std::uint64_t>();
  m.first_block = in.number<std::uint64_t>();
  m.count = in.number<std::uint32_t>();
  in.require(m.count >= 1 && m.count <= max_checksums_in_reply);
  in.zeros(4);
}
void write(byte_writer& out, const get_checksums& m) {
  out.number(m.lease_id);
  out.number(m.first_block);
  out.number(m.count);
  out.zeros(4);
}

wire_type type_of(const checksums&) { return wire_type::checksums; }
void read(byte_reader& in, checksums& m) {
  m.first_block = in.number<std::uint64_t>();
  const auto count = in.number<std::uint32_t>();
  in.zeros(4);
  in.require(count >= 1 && count <= max_checksums_in_reply);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    m.values.push_back(in.number<std::uint32_t>());
  }
}
void write(byte_writer& out, const checksums& m) {
  out.number(m.first_block);
  out.number(static_cast<std::uint32_t>(m.values.size()));
  out.zeros(4);
  for (const auto value : m.values) {
    out.number(value);
  }
}

wire_type type_of(const renew&) { return wire_type::renew; }
void read(byte_reader& in, renew& m) { m.lease_id = in.number<std::uint64_t>(); }
void write(byte_writer& out, const renew& m) { out.number(m.lease_id); }

wire_type type_of(const renewed&) { return wire_type::renewed; }
void read(byte_reader& in, renewed& m) {
  m.lease_id = in.number<std::uint64_t>();
  m.duration_ms = in.number<std::uint32_t>();
  in.zeros(4);
}
void write(byte_writer& out, const renewed& m) {
  out.number(m.lease_id);
  out.number(m.duration_ms);
  out.zeros(4);
}

wire_type type_of(const release&) { return wire_type::release; }
void read(byte_reader& in, release& m) {
  m.lease_id = in.number<std::uint64_t>();
  m.bytes_read = in.number<std::uint64_t>();
}
void write(byte_writer& out, const release& m) {
  out.number(m.lease_id);
  out.number(m.bytes_read);
}

wire_type type_of(const released&) { return wire_type::released; }
void read(byte_reader& in, released& m) { m.lease_id = in.number<std::uint64_t>(); }
void write(byte_writer& out, const released& m) { out.number(m.lease_id); }

wire_type type_of(const list&) { return wire_type::list; }
void read(byte_reader& in, list& m) {
  m.after = in.padded_text(max_name_size);
  in.require(m.after.empty() || is_valid_name(m.after));
}
void write(byte_writer& out, const list& m) { out.padded_text(m.after, max_name_size); }

wire_type type_of(const listing&) { return wire_type::listing; }
void read(byte_reader& in, listing& m) {
  const auto count = in.number<std::uint32_t>();
  in.require(count <= max_buffers_in_listing);
  m.more = read_flag(in, 1);
  in.require(count > 0 || !m.more);
  for (std::uint32_t i = 0; in.ok() && i < count; ++i) {
    listing::entry e;
    e.name = in.padded_text(max_name_size);
    check_name(in, e.name);
    e.size = in.number<std::uint64_t>();
    e.version = in.number<std::uint64_t>();
    e.staged = read_flag(in, staged_flag);
    in.zeros(4);
    m.entries.push_back(std::move(e));
  }
}
void write(byte_writer& out, const listing& m) {
  out.number(static_cast<std::uint32_t>(m.entries.size()));
  write_flag(out, m.more, 1);
  for (const auto& e : m.entries) {
    out.padded_text(e.name, max_name_size);
    out.number(e.size);
    out.number(e.version);
    write_flag(out, e.staged, staged_flag);
    out.zeros(4);
  }
}

void read_sentence(byte_reader& in, std::string& sentence) {
  const auto size = in.number<std::uint16_t>();
  in.require(size <= max_sentence_size);
  sentence = in.text(in.ok() ? size : 0);
  in.require(is_wire_sentence(sentence));
}
void write_sentence(byte_writer& out, std::string_view sentence) {
  const auto kept = wire_sentence(sentence, max_sentence_size);
  out.number(static_cast<std::uint16_t>(kept.size()));
  out.text(kept);
}

wire_type type_of(const error&) { return wire_type::error; }
void read(byte_reader& in, error& m) {
  m.code = read_code(in);
  read_sentence(in, m.sentence);
}
void write(byte_writer& out, const error& m) {
  out.number(static_cast<std::uint16_t>(m.code));
  write_sentence(out, m.sentence);
}

wire_type type_of(const ping&) { return wire_type::ping; }
void read(byte_reader&, ping&) {}
void write(byte_writer&, const ping&) {}

wire_type type_of(const pong&) { return wire_type::pong; }
void read(byte_reader&, pong&) {}
void write(byte_writer&, const pong&) {}

wire_type type_of(const notice&) { return wire_type::notice; }
void read(byte_reader& in, notice& m) {
  const auto kind = in.number<std::uint16_t>();
  in.require(kind >= 1 && kind <= 3);
  m.kind = static_cast<notice_kind>(kind);
  m.code = read_code(in);
  in.zeros(4);
  m.lease_id = in.number<std::uint64_t>();
  read_sentence(in, m.sentence);
}
void write(byte_writer& out, const notice& m) {
  out.number(static_cast<std::uint16_t>(m.kind));
  out.number(static_cast<std::uint16_t>(m.code));
  out.zeros(4);
  out.number(m.lease_id);
  write_sentence(out, m.sentence);
}

template <typename T>
bool read_into(byte_reader& in, wire_type type, body& content) {
  T m;
  if (type_of(m) != type) {
    return false;
  }
  read(in, m);
  content = std::move(m);
  return true;
}

/// False where no alternative of `body` has this type.
template <typename... T>
bool read_body(byte_reader& in, wire_type type, std::variant<T...>& content) {
  return (read_into<T>(in, type, content) || ...);
}

}  // namespace

bool is_valid_name(std::string_view name) noexcept {
  // No leading '.' or '-': a name may become a file's name or stand on a command line.
  return !name.empty() && name.size() <= max_name_size && name.front() != '.' && name.front() != '-' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
                  c == '-';
         });
}

bool is_wire_sentence(std::string_view text) noexcept {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7E; });
}

std::string wire_sentence(std::string_view text, std::size_t size) {
  std::string kept{text.substr(0, size)};
  std::replace_if(
      kept.begin(), kept.end(), [](char c) { return c < 0x20 || c > 0x7E; }, '?');
  return kept;
}

result<message> decode(std::span<const std::byte> bytes) {
  byte_reader in{bytes};
  const auto type = static_cast<wire_type>(in.number<std::uint16_t>());
  const auto length = in.number<std::uint16_t>();
  message m;
  m.request_id = in.number<std::uint32_t>();
  if (!in.ok() || length != bytes.size() || length > max_reply_size || !read_body(in, type, m.content) ||
      !in.ok_and_empty()) {
    return make_error_code(errc::malformed_message);
  }
  return m;
}

std::vector<std::byte> encode(const message& m) {
  byte_writer out;
  std::visit(
      [&](const auto& content) {
        out.number(static_cast<std::uint16_t>(type_of(content)));
        out.number(std::uint16_t{0});
        out.number(m.request_id);
        write(out, content);
      },
      m.content);
  out.number_at(2, static_cast<std::uint16_t>(out.size()));
  return std::move(out).take();
}

}  // namespace gpurdma::protocol
