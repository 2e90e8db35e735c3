#pragma once

#include <atomic>

namespace gpurdma::fake_cuda {

/// Whether what is allocated from now on can be exported as a dma-buf. It then has addresses at which its bytes are, so
/// that an adapter that is fake as well reaches them.
inline std::atomic<bool> exports_dma_bufs{false};

}  // namespace gpurdma::fake_cuda
