#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace gpurdma::client {

/// What the command line asks for.
struct options {
  std::string host;
  std::uint16_t port = 7471;
  std::string buffer;
  bool list = false;
  std::uint64_t offset = 0;             ///< bytes
  std::optional<std::uint64_t> length;  ///< bytes; to the end where it is not said
  std::optional<std::string> output;    ///< a file's path, or "-"; else the bytes go nowhere
  std::optional<std::string> to_gpu;    ///< the GPU into whose memory the bytes go: index, UUID or PCI address
  bool verify = true;
  bool json = false;
  std::uint32_t depth = 16;                   ///< READs under way at once
  std::uint32_t read_size = 1U << 20U;        ///< bytes of one READ
  bool bench = false;                         ///< READs into memory, timed
  std::uint32_t count = 1000;                 ///< READs of a bench
  std::chrono::milliseconds timeout{10'000};  ///< of each wait for the server
};

/// The options of a command line; nothing where the program is to exit with `status`, all having been said.
[[nodiscard]] std::optional<options> parse_options(int argc, const char* const* argv, int& status);

struct target {
  std::string host;
  std::uint16_t port = 7471;
  std::string buffer;
};

/// "HOST[:PORT][/BUFFER]", where HOST is a name, an IPv4 address or an IPv6 address in brackets. Nothing where it is
/// none of these.
[[nodiscard]] std::optional<target> parse_target(const std::string& text);

}  // namespace gpurdma::client
