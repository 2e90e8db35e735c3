#pragma once

// A thread that does work for others, one piece after the other.

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <type_traits>

namespace gpurdma::memory {

/// Its destructor does what was asked for before and joins the thread.
class owner_thread {
 public:
  owner_thread() : thread_{[this](const std::stop_token& stop) { work(stop); }} {}

  /// What `task()` returns or throws, on the owner thread. Waits for it and for what was asked for before. Not to be
  /// called from a task.
  template <typename Task>
  std::invoke_result_t<Task> run(Task task) {
    return post(std::move(task)).get();
  }

  /// The same, but waits for `limit` at most and then throws timed_out. The task is done all the same, later: it owns
  /// all it uses.
  template <typename Task>
  std::invoke_result_t<Task> run_within(std::chrono::milliseconds limit, Task task) {
    auto result = post(std::move(task));
    if (result.wait_for(limit) != std::future_status::ready) {
      throw std::system_error{std::make_error_code(std::errc::timed_out)};
    }
    return result.get();
  }

 private:
  template <typename Task>
  auto post(Task task) {
    // std::function must be able to copy what it holds.
    auto packaged = std::make_shared<std::packaged_task<std::invoke_result_t<Task>()>>(std::move(task));
    auto result = packaged->get_future();
    {
      const std::scoped_lock lock{mutex_};
      tasks_.emplace_back([packaged] { (*packaged)(); });
    }
    wake_.notify_one();
    return result;
  }

  void work(const std::stop_token& stop) {
    std::unique_lock lock{mutex_};
    while (wake_.wait(lock, stop, [this] { return !tasks_.empty(); }) || !tasks_.empty()) {
      const auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<std::function<void()>> tasks_;
  std::jthread thread_;  // last: begins when the rest is there, is joined before it goes
};

}  // namespace gpurdma::memory
