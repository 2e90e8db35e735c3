#pragma once

#include <cstdint>

#include "client/failure.hpp"
#include "client/outcome.hpp"

namespace gpurdma::client {

/// Told how a transfer fares.
class transfer_handler {
 public:
  /// Every READ is done and its bytes are where they belong: the server is not needed any more.
  virtual void on_transferred() = 0;
  virtual void on_transfer_failed(failure why) = 0;

 protected:
  ~transfer_handler() = default;
};

/// What is done with the bytes that a lease lends. It owns the memory that its READs write: it goes when none is
/// posted any more, before the link whose domain that memory is registered in.
class transfer {
 public:
  transfer() = default;
  transfer(const transfer&) = delete;
  transfer& operator=(const transfer&) = delete;
  virtual ~transfer() = default;

  /// Posts the first READs.
  virtual void start() = 0;
  /// The READ that was posted with `tag` succeeded.
  virtual void on_read_done(std::uint32_t tag) = 0;
  /// Nothing is posted and the handler is told nothing any more.
  virtual void stop() = 0;
  /// Adds what it came to.
  virtual void report(outcome& to) const = 0;
};

}  // namespace gpurdma::client
