#include "protocol/handshake.hpp"

#include <utility>

#include "protocol/bytes.hpp"

namespace gpurdma::protocol {
namespace {

// "gRDM" as bytes.
constexpr std::uint32_t magic = 0x4D445267;

constexpr std::size_t preamble_size = 8;  // magic, length, lowest and highest version
constexpr std::size_t max_refusal_sentence = max_refusal_size - preamble_size - 4;

struct preamble {
  std::uint8_t lowest = 0;
  std::uint8_t highest = 0;
};

void write_preamble(byte_writer& out, preamble versions) {
  out.number(magic);
  out.number(std::uint16_t{0});  // the length, set by finish()
  out.number(versions.lowest);
  out.number(versions.highest);
}

std::vector<std::byte> finish(byte_writer&& out) {
  out.number_at(4, static_cast<std::uint16_t>(out.size()));
  return std::move(out).take();
}

/// Reads the preamble of `bytes`, calls `rest` with what follows it within the length that it states.
template <typename T, typename Read>
result<T> parse(std::span<const std::byte> bytes, Read rest) {
  byte_reader head{bytes};
  if (head.number<std::uint32_t>() != magic) {
    return make_error_code(errc::wrong_magic);
  }
  const std::size_t length = head.number<std::uint16_t>();
  const preamble versions{head.number<std::uint8_t>(), head.number<std::uint8_t>()};
  if (!head.ok() || length < preamble_size || length > bytes.size() || versions.lowest == 0 ||
      versions.lowest > versions.highest) {
    return make_error_code(errc::malformed_handshake);
  }
  byte_reader in{bytes.subspan(preamble_size, length - preamble_size)};
  T value = rest(in, versions);
  // A later version may append fields to a structure; what this one knows must be there and in order.
  if (!in.ok()) {
    return make_error_code(errc::malformed_handshake);
  }
  return value;
}

}  // namespace

result<hello> decode_hello(std::span<const std::byte> bytes) {
  return parse<hello>(bytes, [](byte_reader& in, preamble versions) {
    hello h{.lowest_version = versions.lowest, .highest_version = versions.highest};
    in.take(h.session);
    in.take(h.client_nonce);
    return h;
  });
}

result<welcome> decode_welcome(std::span<const std::byte> bytes) {
  auto decoded = parse<welcome>(bytes, [](byte_reader& in, preamble versions) {
    in.require(versions.lowest == versions.highest);
    welcome w{.version = versions.lowest};
    w.incarnation = in.number<std::uint64_t>();
    in.take(w.session);
    in.take(w.server_nonce);
    w.max_request_size = in.number<std::uint16_t>();
    w.max_reply_size = in.number<std::uint16_t>();
    w.credits = in.number<std::uint16_t>();
    in.zeros(2);
    w.silence_limit_ms = in.number<std::uint32_t>();
    in.require(w.credits >= 1 && w.max_request_size >= max_request_size && w.max_reply_size <= max_reply_size);
    return w;
  });
  if (decoded && decoded->version != version) {
    return make_error_code(errc::no_common_version);
  }
  return decoded;
}

result<refusal> decode_refusal(std::span<const std::byte> bytes) {
  return parse<refusal>(bytes, [](byte_reader& in, preamble versions) {
    refusal r{.lowest_version = versions.lowest, .highest_version = versions.highest};
    r.code = errc_from_wire(in.number<std::uint16_t>());
    const auto size = in.number<std::uint16_t>();
    in.require(size <= max_refusal_sentence);
    r.sentence = in.text(in.ok() ? size : 0);
    in.require(is_wire_sentence(r.sentence));
    return r;
  });
}

std::vector<std::byte> encode(const hello& h) {
  byte_writer out;
  write_preamble(out, {h.lowest_version, h.highest_version});
  out.raw(h.session);
  out.raw(h.client_nonce);
  return finish(std::move(out));
}

std::vector<std::byte> encode(const welcome& w) {
  byte_writer out;
  write_preamble(out, {w.version, w.version});
  out.number(w.incarnation);
  out.raw(w.session);
  out.raw(w.server_nonce);
  out.number(w.max_request_size);
  out.number(w.max_reply_size);
  out.number(w.credits);
  out.zeros(2);
  out.number(w.silence_limit_ms);
  return finish(std::move(out));
}

std::vector<std::byte> encode(const refusal& r) {
  byte_writer out;
  write_preamble(out, {r.lowest_version, r.highest_version});
  const auto sentence = wire_sentence(r.sentence, max_refusal_sentence);
  out.number(static_cast<std::uint16_t>(r.code));
  out.number(static_cast<std::uint16_t>(sentence.size()));
  out.text(sentence);
  return finish(std::move(out));
}

std::error_code check_versions(const hello& h) noexcept {
  return h.lowest_version <= version && version <= h.highest_version ? std::error_code{}
                                                                     : make_error_code(errc::no_common_version);
}

}  // namespace gpurdma::protocol
