#pragma once

// A client that does what a test tells it, step by step and blocking, well-behaved or not. On librdmacm alone, so
// that it shares no mistake with rdma/; of the project it uses only the codec.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/codec.hpp"
#include "protocol/handshake.hpp"
#include "tests/integration/support/process.hpp"

namespace gpurdma::test {

class peer {
 public:
  struct options {
    std::uint32_t receives = 16;  ///< RECVs posted; none are posted again
    std::uint8_t rnr_retries = 6;
  };
  peer();
  explicit peer(options o);
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;
  /// Goes without a word, as a crash would.
  ~peer();

  /// Address, route, queue pair.
  void resolve(const std::string& address = self_address(), std::uint16_t port = 7471);
  /// Asks to connect and does not wait for the answer.
  void request_connection(std::span<const std::byte> private_data);
  /// Asks to connect. True if accepted; then and else answer() holds the private data.
  bool connect(std::span<const std::byte> private_data);
  bool connect(const protocol::hello& h = {}) { return connect(protocol::encode(h)); }
  [[nodiscard]] const std::vector<std::byte>& answer() const noexcept { return answer_; }
  void disconnect();

  void send(std::span<const std::byte> bytes);
  void send(std::uint32_t request_id, protocol::body content) {
    send(protocol::encode({request_id, std::move(content)}));
  }
  /// The next message that is no ping (which it answers); nothing where none comes or the connection is lost.
  [[nodiscard]] std::optional<protocol::message> receive(std::chrono::milliseconds limit = patience);
  /// The answer's content; fails the test where it is of another type.
  template <typename Answer>
  [[nodiscard]] Answer ask(protocol::body request);
  [[nodiscard]] protocol::lease open(const std::string& name, std::uint64_t offset = 0,
                                     std::uint64_t length = protocol::to_the_end);

  /// READs into own memory.
  [[nodiscard]] ibv_wc_status read(std::uint64_t address, std::uint32_t rkey, std::uint32_t length);
  /// Posts a READ and does not wait for its end.
  void start_read(std::uint64_t address, std::uint32_t rkey, std::uint32_t length);
  /// Asks for a WRITE, or an atomic, that no server should allow.
  [[nodiscard]] ibv_wc_status write(std::uint64_t address, std::uint32_t rkey, std::uint32_t length,
                                    ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE);
  [[nodiscard]] std::span<const std::byte> data() const noexcept { return data_; }

  /// Whether the connection is lost, now or before `limit`: an error completion or a DISCONNECTED event.
  [[nodiscard]] bool is_lost(std::chrono::milliseconds limit = patience);

 private:
  rdma_cm_event_type next_event(std::chrono::milliseconds limit);
  void post_receive(std::uint64_t slot);
  /// The next completion, or nothing.
  std::optional<ibv_wc> poll_once(std::chrono::milliseconds limit);
  bool post_one_sided(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t rkey, std::uint32_t length);
  ibv_wc_status one_sided(ibv_wr_opcode opcode, std::uint64_t address, std::uint32_t rkey, std::uint32_t length);
  void take(const ibv_wc& wc);

  options options_;
  rdma_event_channel* channel_ = nullptr;
  rdma_cm_id* id_ = nullptr;
  ibv_pd* domain_ = nullptr;
  ibv_cq* queue_ = nullptr;
  ibv_mr* region_ = nullptr;
  std::vector<std::byte> memory_;  ///< RECVs, SENDs, then data_
  std::span<std::byte> data_;
  std::uint64_t sent_ = 0;
  std::vector<std::byte> answer_;
  std::vector<std::vector<std::byte>> received_;
  std::optional<ibv_wc_status> one_sided_result_;
  std::uint32_t last_request_ = 1000;
  bool lost_ = false;
};

}  // namespace gpurdma::test

#include "tests/integration/support/peer_inline.hpp"
