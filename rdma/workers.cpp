#include "rdma/workers.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <utility>

namespace gpurdma::rdma {

workers::workers(boost::asio::io_context& reactor, unsigned threads) : reactor_{reactor}, threads_{threads} {}

void workers::run(job work, completion done) {
  // The guard keeps the reactor running while only a worker is busy.
  auto guard = boost::asio::make_work_guard(reactor_);
  boost::asio::post(threads_,
                    [this, work = std::move(work), done = std::move(done), guard = std::move(guard)]() mutable {
                      std::exception_ptr error;
                      try {
                        work();
                      } catch (...) {
                        error = std::current_exception();
                      }
                      ++jobs_ended_;
                      work = {};  // what the job holds goes here, not on the reactor
                      // Of the exception nothing stays here: the reactor alone has it from now on, and ends it.
                      boost::asio::post(reactor_, [done = std::move(done), error = std::move(error)] { done(error); });
                    });
}

void workers::join() { threads_.join(); }

std::string describe(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "unknown error";
  }
}

}  // namespace gpurdma::rdma
