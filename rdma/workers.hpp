#pragma once

// The threads for what would block the reactor: loading, checksums, registering and deregistering large memory.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>

namespace gpurdma::rdma {

class workers {
 public:
  workers(boost::asio::io_context& reactor, unsigned threads);

  using job = std::function<void()>;
  /// Told on the reactor thread; the exception is what the job threw, or null.
  using completion = std::function<void(std::exception_ptr)>;

  /// Runs `work` on a thread and then `done` on the reactor, which stays running until then.
  void run(job work, completion done);

  /// Jobs that were run to their end so far, for whoever asks whether the threads get on.
  [[nodiscard]] std::uint64_t jobs_ended() const noexcept { return jobs_ended_; }

  /// Waits for the threads. For the end, when the reactor has nothing left to run.
  void join();

 private:
  boost::asio::io_context& reactor_;
  std::atomic<std::uint64_t> jobs_ended_ = 0;
  boost::asio::thread_pool threads_;
};

/// The sentence of an exception, for logs.
[[nodiscard]] std::string describe(const std::exception_ptr& error);

}  // namespace gpurdma::rdma
