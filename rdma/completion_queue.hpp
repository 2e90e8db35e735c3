#pragma once

// The completion queues of a device, behind one completion channel, in the reactor.

#include <boost/asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <system_error>
#include <vector>

#include "rdma/fd_watch.hpp"
#include "rdma/handles.hpp"
#include "rdma/work_request_table.hpp"

namespace gpurdma::rdma {

/// What may be used of a work completion: on an error only its status.
struct completion {
  ibv_wc_status status{};
  std::uint32_t bytes = 0;  ///< received
};

class work_owner {
 public:
  virtual void on_completion(work_kind kind, std::uint32_t index, const completion& what) = 0;
  /// The queue of its reservation failed: no completion will come any more.
  virtual void on_queue_lost(std::error_code why) = 0;

 protected:
  ~work_owner() = default;
};

class completion_queues;
struct shared_queue;

/// Room for a number of an owner's completions in a queue. A queue never overruns because every queue pair holds one of
/// these for all that it may have posted.
class completion_reservation {
 public:
  completion_reservation() = default;
  completion_reservation(completion_reservation&& other) noexcept;
  completion_reservation& operator=(completion_reservation&& other) noexcept;
  ~completion_reservation();

  [[nodiscard]] ibv_cq* queue() const noexcept;
  explicit operator bool() const noexcept { return queue_ != nullptr; }

 private:
  friend class completion_queues;
  completion_reservation(shared_queue& q, std::uint32_t entries, work_owner& owner);
  void give_back() noexcept;

  shared_queue* queue_ = nullptr;
  std::uint32_t entries_ = 0;
  work_owner* owner_ = nullptr;
};

class completion_queues {
 public:
  /// Throws std::system_error.
  completion_queues(boost::asio::io_context& io, ibv_context& context, std::uint32_t max_entries);
  completion_queues(const completion_queues&) = delete;
  completion_queues& operator=(const completion_queues&) = delete;
  /// Expects every reservation given back.
  ~completion_queues();

  /// Throws std::system_error where a further queue is needed and cannot be had.
  [[nodiscard]] completion_reservation reserve(std::uint32_t entries, work_owner& owner);
  [[nodiscard]] work_request_table& work_requests() noexcept { return work_requests_; }
  /// Waits for no completion any more.
  void close();

 private:
  void on_readable();
  void arm_and_poll(shared_queue& q);
  void poll(shared_queue& q);
  void lose(shared_queue& q, std::error_code why);

  boost::asio::io_context& io_;
  ibv_context& context_;
  std::uint32_t max_entries_;
  completion_channel_handle channel_;
  work_request_table work_requests_;
  std::vector<std::unique_ptr<shared_queue>> queues_;
  std::unique_ptr<fd_watch> watch_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace gpurdma::rdma
