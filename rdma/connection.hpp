#pragma once

// A connection id, its queue pair, and the books of what is posted on it.

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <system_error>
#include <vector>

#include "rdma/cm_event_channel.hpp"
#include "rdma/completion_queue.hpp"
#include "rdma/device.hpp"
#include "rdma/handles.hpp"
#include "rdma/memory_region.hpp"
#include "rdma/workers.hpp"

namespace gpurdma::rdma {

struct connection_settings {
  std::uint32_t receives = 1;      ///< RECVs kept posted
  std::uint32_t receive_size = 0;  ///< bytes of each
  std::uint32_t sends = 1;         ///< SENDs that may be under way at once
  std::uint32_t send_size = 0;     ///< bytes of the longest
  std::uint32_t queued_sends = 0;  ///< further messages that may wait for a SEND to complete
  std::uint32_t reads = 0;         ///< READs that may be posted at once
  /// How long a queue pair in error may take to flush. Adapters need microseconds; one that was unplugged never does.
  std::chrono::milliseconds drain_limit{5000};
};

class connection_handler {
 public:
  /// Once, before any on_message. `private_data` is what the peer accepted with; empty on the accepting side.
  virtual void on_established(std::span<const std::byte> private_data) = 0;
  /// The bytes are valid during the call.
  virtual void on_message(std::span<const std::byte> bytes) = 0;
  virtual void on_read_done(std::uint32_t tag, std::error_code result) = 0;
  /// The connection is lost or was never made: it closes itself, on_closed follows. Not called after close(). The
  /// private data is that of the peer's refusal, where it refused.
  virtual void on_failed(std::error_code why, std::span<const std::byte> private_data) = 0;
  /// Last: every posted work request came home and the queue pair is gone. `lost` counts those that did not come
  /// before the deadline. The handler may destroy the connection.
  virtual void on_closed(std::uint32_t lost) = 0;

 protected:
  ~connection_handler() = default;
};

/// Nothing here blocks for longer than a system call. Whoever owns a connection calls close() and keeps the
/// connection, its domain and all memory that its READs write until on_closed.
class connection final : private cm_event_handler, private work_owner {
 public:
  /// Makes the queue pair and posts the RECVs. `closers` do what may block when it is destroyed. `id` is bound to
  /// `on`'s context, and is taken over unless this throws std::system_error.
  connection(boost::asio::io_context& io, workers& closers, device& on, ibv_pd& domain, cm_id&& id,
             connection_settings settings, connection_handler& handler);
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;
  ~connection();

  /// For an id that came with a request to connect. `reads_in`: READs of the peer worked on at once.
  [[nodiscard]] std::error_code accept(std::uint8_t reads_in, std::span<const std::byte> private_data);
  /// For an id whose route is resolved. `reads_out`: READs under way at once.
  [[nodiscard]] std::error_code connect(std::uint8_t reads_out, std::span<const std::byte> private_data);

  /// Lets the peer read what is registered in the domain, or not. Taking it away stops every READ of the peer. Of a
  /// connection that is closing, whose peer is or soon will be cut off, it changes nothing: connection_error::closed.
  [[nodiscard]] std::error_code allow_remote_read(bool allowed);

  /// no_buffer_space where the sends and the queue are full: the peer does not take what it is sent.
  [[nodiscard]] std::error_code send(std::span<const std::byte> bytes);
  /// Messages that send() takes now, if none completes.
  [[nodiscard]] std::size_t room() const noexcept {
    return free_sends_.size() + settings_.queued_sends - queued_sends_.size();
  }
  /// READs `length` bytes from the peer. `tag` comes back in on_read_done and is not in use. no_buffer_space where
  /// settings.reads are posted.
  [[nodiscard]] std::error_code read(std::uint32_t tag, std::uint64_t local, std::uint32_t lkey, std::uint64_t remote,
                                     std::uint32_t rkey, std::uint32_t length);

  /// Like close(), but first gives what was sent a second to arrive. The peer reads nothing more meanwhile.
  void close_after_sends();
  /// Cuts the peer off, at once; on_closed follows. More than once is as good as once.
  void close();

  [[nodiscard]] std::uint32_t number() const noexcept { return queue_pair_number_; }  ///< of the queue pair
  [[nodiscard]] std::uint8_t port() const noexcept { return id_->port_num; }
  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::uint32_t reads_posted() const noexcept { return reads_posted_; }

 private:
  enum class state {
    made,         ///< the queue pair exists, RECVs are posted
    connecting,   ///< accepted, or asked to connect
    established,  ///< the peer is there
    lingering,    ///< to be closed once the SENDs are out
    draining,     ///< the queue pair is in error; posted work requests come home
    closed,       ///< all is given back
  };

  void on_cm_event(const cm_event& event) override;
  void on_completion(work_kind kind, std::uint32_t index, const completion& what) override;
  void on_queue_lost(std::error_code why) override;

  void on_established(std::span<const std::byte> private_data);
  void on_received(std::uint32_t index, const completion& what);
  [[nodiscard]] std::error_code rejection(int reason) const noexcept;
  void failed(std::error_code why, std::span<const std::byte> private_data = {});
  void start_draining();
  void set_deadline(std::chrono::milliseconds after);
  void on_deadline();
  void post_receives();
  void on_sent(std::uint32_t index, const completion& what);
  void finish_if_drained();
  void finish();

  template <typename Request, typename Post>
  [[nodiscard]] std::error_code post(work_kind kind, std::uint32_t index, Request& request, ibv_sge sge, Post post_it);
  [[nodiscard]] ibv_sge message_sge(std::span<const std::byte> buffer) const noexcept;
  [[nodiscard]] std::error_code post_receive(std::uint32_t index);
  [[nodiscard]] std::error_code post_send(std::uint32_t index, std::span<const std::byte> bytes);
  [[nodiscard]] std::error_code post_send_now(std::span<const std::byte> bytes);
  void create_queue_pair();
  [[nodiscard]] std::span<std::byte> receive_buffer(std::uint32_t index) noexcept;
  [[nodiscard]] std::span<std::byte> send_buffer(std::uint32_t index) noexcept;

  struct pages_free {
    void operator()(std::byte* p) const noexcept;
  };

  boost::asio::io_context& io_;
  workers& closers_;
  device& device_;
  ibv_pd& domain_;
  connection_settings settings_;
  connection_handler& handler_;

  rdma_cm_id* id_;
  cm_id owned_id_;
  std::unique_ptr<std::byte, pages_free> messages_;  ///< buffers of the RECVs, then of the SENDs
  std::optional<memory_region> messages_region_;
  completion_reservation completions_;
  queue_pair_handle queue_pair_;
  std::uint32_t queue_pair_number_ = 0;

  state state_ = state::made;
  bool accepted_ = false;  ///< the peer asked for this connection
  std::uint32_t posted_ = 0;
  std::uint32_t reads_posted_ = 0;
  std::vector<std::uint32_t> free_sends_;
  std::deque<std::vector<std::byte>> queued_sends_;
  std::optional<boost::asio::steady_timer> deadline_;  ///< of lingering and of draining
  bool finish_is_due_ = false;
  bool hopeless_ = false;  ///< posted work requests will not come home, so draining does not wait for them
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  ///< for what is posted to the reactor
};

}  // namespace gpurdma::rdma
