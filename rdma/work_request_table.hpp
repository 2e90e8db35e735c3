#pragma once

// Which posted work request a completion belongs to.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace gpurdma::rdma {

enum class work_kind : std::uint8_t { receive = 1, send = 2, read = 3 };

class work_owner;

/// wr_id = generation (32 bits) | kind (4) | slot (28). A completion that comes after its owner has gone finds a slot
/// of another generation and is told apart, where a raw pointer would be followed.
class work_request_table {
 public:
  struct entry {
    work_owner* owner = nullptr;
    work_kind kind{};
    std::uint32_t index = 0;  ///< the owner's own number for it
  };

  /// The wr_id to post with.
  [[nodiscard]] std::uint64_t add(const entry& e);
  /// Ends the request; nothing where the id is stale or was never given.
  [[nodiscard]] std::optional<entry> take(std::uint64_t wr_id) noexcept;
  /// Ends all requests of `owner`: their completions will be stale. Looks at every slot.
  void forget(const work_owner& owner) noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return slots_.size() - free_.size(); }

 private:
  struct slot {
    entry what;
    std::uint32_t generation = 0;
    bool used = false;
  };
  void end(std::uint32_t index) noexcept;

  std::vector<slot> slots_;
  std::vector<std::uint32_t> free_;  ///< has capacity for every slot, so that giving one back cannot fail
};

}  // namespace gpurdma::rdma
