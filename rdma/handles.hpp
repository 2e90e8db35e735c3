#pragma once

// Owners of what libibverbs and librdmacm hand out. A member that needs another is declared after it. The
// ibv_context is not here: it is librdmacm's, borrowed, and closing it by hand is a double free.

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cassert>
#include <memory>

namespace gpurdma::rdma {

/// Deleting fails only while something that was made from the object lives: a programming error.
template <typename T, auto Destroy>
struct destroyer {
  void operator()(T* object) const noexcept {
    [[maybe_unused]] const int result = Destroy(object);
    assert(result == 0);
  }
};
template <typename T, auto Destroy>
using owner = std::unique_ptr<T, destroyer<T, Destroy>>;

using protection_domain = owner<ibv_pd, &ibv_dealloc_pd>;
using completion_channel_handle = owner<ibv_comp_channel, &ibv_destroy_comp_channel>;
using completion_queue_handle = owner<ibv_cq, &ibv_destroy_cq>;
using memory_region_handle = owner<ibv_mr, &ibv_dereg_mr>;
/// Destroying blocks until every event of the id was acknowledged, and needs its queue pair destroyed before.
using cm_id = owner<rdma_cm_id, &rdma_destroy_id>;

struct event_channel_destroyer {
  void operator()(rdma_event_channel* channel) const noexcept { rdma_destroy_event_channel(channel); }
};
using event_channel_handle = std::unique_ptr<rdma_event_channel, event_channel_destroyer>;

/// Made by rdma_create_qp; taken out of its id before it goes, for rdma_get_cm_event may use what is there.
using queue_pair_handle = owner<ibv_qp, &ibv_destroy_qp>;

}  // namespace gpurdma::rdma
