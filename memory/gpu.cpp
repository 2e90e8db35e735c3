#include "memory/gpu.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <utility>

#include "memory/byte_size.hpp"
#include "memory/checksum.hpp"
#include "memory/crc32c_sliced.hpp"
#include "memory/cuda_error.hpp"
#include "memory/cuda_kernels.hpp"
#include "memory/topology.hpp"

namespace gpurdma::memory {
namespace {

// Of one launch; each fills its place in pinned memory. 8 GiB: some 4 ms of a large GPU's time.
constexpr std::size_t results_at_once = 8192;

std::uint64_t page_size() noexcept { return static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); }

// Addresses are numbers in verbs and pointers in CUDA.
void* pointer_to(std::uint64_t address) noexcept {
  return reinterpret_cast<void*>(address);  // NOLINT(*-reinterpret-cast,performance-no-int-to-ptr)
}
template <typename Function>
Function driver_call(const char* name, unsigned version) {
  return reinterpret_cast<Function>(find_driver_call(name, version));  // NOLINT(*-reinterpret-cast): as the API is
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < sizeof uuid.bytes; ++i) {
    std::array<char, 3> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    text += i == 0 || i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    text += hex.data();
  }
  return text;
}

bool supports_dma_buf(int index) {
  using device_attribute = CUresult (*)(int*, CUdevice_attribute, CUdevice);
  try {
    int supported = 0;
    // A runtime's index is the driver's device: both count what CUDA_VISIBLE_DEVICES shows.
    return driver_call<device_attribute>("cuDeviceGetAttribute", 2000)(
               &supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, index) == CUDA_SUCCESS &&
           supported == 1;
  } catch (const std::system_error&) {
    return false;  // an older driver
  }
}

gpu_info examine(int index) {
  cudaDeviceProp properties{};
  require(cudaGetDeviceProperties(&properties, index), "GPU " + std::to_string(index) + " cannot be examined");
  std::array<char, 32> address{};
  std::snprintf(address.data(), address.size(), "%04x:%02x:%02x.0", static_cast<unsigned>(properties.pciDomainID),
                static_cast<unsigned>(properties.pciBusID), static_cast<unsigned>(properties.pciDeviceID));
  const auto pci = find_pci_device(address.data());
  return {.index = index,
          .name = static_cast<const char*>(properties.name),
          .uuid = uuid_text(properties.uuid),
          .pci_address = address.data(),
          .bytes = properties.totalGlobalMem,
          .numa_node = pci ? pci->numa_node : std::nullopt,
          .bar1_bytes = pci ? pci->largest_bar_bytes : 0,
          .dma_buf_supported = supports_dma_buf(index)};
}

/// CUDA's own words are of little help where there is no driver, since that is an old one to it.
std::string why_no_gpu(cudaError_t error) {
  int version = 0;
  const bool no_driver = cudaDriverGetVersion(&version) != cudaSuccess || version == 0;
  if (error == cudaErrorInsufficientDriver && no_driver) {
    return "NVIDIA's driver is not there (no libcuda.so.1): install it, and see that nvidia-smi lists the GPU";
  }
  return "no GPU can be used: " + cuda_category().message(error) + " (" + remedy_of(error) + ")";
}

/// Of 1000 · major + 10 · minor.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

int count_gpus(cudaError_t& error) {
  int count = 0;
  error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return 0;
  }
  return count;
}

}  // namespace

std::optional<std::string> cuda_unavailable() {
  cudaError_t error{};
  if (count_gpus(error) > 0) {
    return std::nullopt;
  }
  return why_no_gpu(error == cudaSuccess ? cudaErrorNoDevice : error);
}

std::string cuda_versions() {
  int runtime = 0;
  int driver = 0;
  static_cast<void>(cudaRuntimeGetVersion(&runtime));
  static_cast<void>(cudaDriverGetVersion(&driver));
  return "CUDA " + version_text(runtime) + ", the driver's " + version_text(driver);
}

std::vector<gpu_info> list_gpus() {
  cudaError_t error{};
  std::vector<gpu_info> gpus;
  for (int i = 0, count = count_gpus(error); i < count; ++i) {
    gpus.push_back(examine(i));
  }
  return gpus;
}

gpu_ptr find_gpu(std::string_view selector) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<gpu>> in_use;
  const std::scoped_lock lock{mutex};
  if (const auto reason = cuda_unavailable()) {
    throw std::system_error{std::make_error_code(std::errc::no_such_device), *reason};
  }
  const auto gpus = list_gpus();
  const auto& info = select_gpu(gpus, selector);
  auto found = in_use[info.index].lock();
  if (!found) {
    found = std::make_shared<gpu>(info);
    in_use[info.index] = found;
  }
  return found;
}

gpu::gpu(gpu_info info) : info_{std::move(info)} {
  owner_.run([this] {
    // Whoever waits for the GPU sleeps instead of spinning. Another user of the context may have decided otherwise.
    const auto with_flags = cudaInitDevice(info_.index, cudaDeviceScheduleBlockingSync, cudaInitDeviceFlagsAreValid);
    if (with_flags != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
    }
    make_current();
    require(cudaStreamCreateWithFlags(&check_stream_, cudaStreamNonBlocking), info_.label() + ": no stream");
    require(cudaStreamCreateWithFlags(&copy_stream_, cudaStreamNonBlocking), info_.label() + ": no stream");
    require(cudaStreamCreateWithFlags(&checksum_stream_, cudaStreamNonBlocking), info_.label() + ": no stream");
    void* results = nullptr;
    require(cudaHostAlloc(&results, results_at_once * sizeof *checksum_results_, cudaHostAllocDefault),
            "cannot pin host memory");
    checksum_results_ = static_cast<std::uint32_t*>(results);
  });
}

gpu::~gpu() {
  owner_.run([this]() noexcept {
    // Of a lost context these fail, and it is all gone anyway.
    static_cast<void>(cudaFreeHost(checksum_results_));
    static_cast<void>(cudaStreamDestroy(checksum_stream_));
    static_cast<void>(cudaStreamDestroy(copy_stream_));
    static_cast<void>(cudaStreamDestroy(check_stream_));
    static_cast<void>(cudaGetLastError());
  });
}

void gpu::make_current() const { require(cudaSetDevice(info_.index), info_.label() + " cannot be used"); }

void gpu::check(std::chrono::milliseconds limit) const {
  try {
    owner_.run_within(limit, [stream = check_stream_, label = info_.label()] {
      require(kernels::nothing(stream), label + " takes no work");
      require(cudaStreamSynchronize(stream), label + " failed");
    });
  } catch (const std::system_error& e) {
    if (e.code() == std::errc::timed_out && e.code().category() != cuda_category()) {
      throw std::system_error{e.code(), info_.label() + " did not answer within " + std::to_string(limit.count()) +
                                            " ms (see `dmesg | grep -i xid`; restart this process)"};
    }
    throw;
  }
}

std::uint64_t gpu::free_bytes() const {
  return owner_.run([this] {
    std::size_t unused = 0;
    std::size_t all = 0;
    require(cudaMemGetInfo(&unused, &all), info_.label() + " does not say how much memory is free");
    return std::uint64_t{unused};
  });
}

void gpu::checksum(std::uint64_t address, std::uint64_t size, std::span<std::uint32_t> sums) const {
  make_current();
  const std::scoped_lock lock{checksum_mutex_};
  crc32c_sliced::finisher finisher;
  while (!sums.empty()) {
    const auto part = sums.first(std::min(sums.size(), results_at_once));
    const auto part_size = std::min(size, std::uint64_t{part.size()} * checksum_block_size);
    require(kernels::checksum_blocks(address, part_size, checksum_results_, checksum_stream_),
            info_.label() + ": cannot checksum");
    require(cudaStreamSynchronize(checksum_stream_), info_.label() + ": checksumming failed");
    for (std::size_t i = 0; i < part.size(); ++i) {
      const auto offset = i * checksum_block_size;
      const auto block_size = std::min<std::uint64_t>(checksum_block_size, part_size - offset);
      part[i] = finisher.finish(checksum_results_[i], address + offset, block_size);
    }
    address += part_size;
    size -= part_size;
    sums = sums.subspan(part.size());
  }
}

void gpu::flush_inbound_writes() const {
  const auto attribute = [this](cudaDeviceAttr which) {
    int value = 0;
    require(cudaDeviceGetAttribute(&value, which, info_.index), info_.label() + " does not say how it orders writes");
    return value;
  };
  const auto options = static_cast<unsigned>(attribute(cudaDevAttrGPUDirectRDMAFlushWritesOptions));
  if (attribute(cudaDevAttrGPUDirectRDMAWritesOrdering) >= cudaGPUDirectRDMAWritesOrderingOwner ||
      (options & unsigned{cudaFlushGPUDirectRDMAWritesOptionHost}) == 0) {
    return;
  }
  make_current();
  require(cudaDeviceFlushGPUDirectRDMAWrites(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
                                             cudaFlushGPUDirectRDMAWritesToOwner),
          info_.label() + ": what an adapter wrote cannot be made visible");
}

std::shared_ptr<const dma_buf> gpu::export_dma_buf(std::uint64_t address, std::uint64_t size) const {
  if (!info_.dma_buf_supported) {
    throw std::system_error{std::make_error_code(std::errc::operation_not_supported),
                            info_.label() +
                                " cannot export memory as dma-buf (it takes NVIDIA's open kernel modules, "
                                "Linux 5.12 or later, and a GPU of Turing or later)"};
  }
  using get_handle = CUresult (*)(void*, CUdeviceptr, std::size_t, CUmemRangeHandleType, unsigned long long);
  return owner_.run([&] {
    const auto page = page_size();
    const auto begin = address / page * page;
    const auto end = (address + size + page - 1) / page * page;
    int fd = -1;
    const auto call = driver_call<get_handle>("cuMemGetHandleForAddressRange", 11070);
    require(to_runtime_error(call(&fd, begin, end - begin, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0)),
            info_.label() + " cannot export " + format_byte_size(end - begin) + " as dma-buf");
    static_cast<void>(fcntl(fd, F_SETFD, FD_CLOEXEC));
    return std::make_shared<const dma_buf>(fd, address - begin, size);
  });
}

gpu::allocation gpu::allocate(std::uint64_t size) const {
  using set_attribute = CUresult (*)(const void*, CUpointer_attribute, CUdeviceptr);
  return owner_.run([&] {
    const auto page = page_size();
    const auto pages = (size + page - 1) / page * page;
    const auto try_to = [&](std::uint64_t bytes) {
      void* at = nullptr;
      if (const auto error = cudaMalloc(&at, bytes); error != cudaSuccess) {
        static_cast<void>(cudaGetLastError());
        std::size_t unused = 0;
        std::size_t all = 0;
        static_cast<void>(cudaMemGetInfo(&unused, &all));
        throw_cuda_error(error, info_.label() + " cannot allocate " + format_byte_size(size) + ": " +
                                    format_byte_size(unused) + " of its " + format_byte_size(all) + " are free");
      }
      const auto base = reinterpret_cast<std::uint64_t>(at);  // NOLINT(*-reinterpret-cast)
      return allocation{.base = base, .address = (base + page - 1) / page * page};
    };
    auto made = try_to(pages);
    if (made.address != made.base) {
      // A small allocation may begin amid a page. Its pages are exported, so it must not share them.
      static_cast<void>(cudaFree(pointer_to(made.base)));
      made = try_to(pages + page);
    }
    // A copy or fill that returns is complete: an adapter that reads afterwards sees it (CUDA's GPUDirect RDMA manual).
    const unsigned yes = 1;
    const auto error = to_runtime_error(
        driver_call<set_attribute>("cuPointerSetAttribute", 6000)(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, made.base));
    if (error != cudaSuccess) {
      static_cast<void>(cudaFree(pointer_to(made.base)));
      throw_cuda_error(error, info_.label() + ": SYNC_MEMOPS cannot be set");
    }
    return made;
  });
}

void gpu::free(const allocation& what) const noexcept {
  owner_.run([&]() noexcept {
    static_cast<void>(cudaFree(pointer_to(what.base)));  // of a lost context it fails, and the memory is gone anyway
    static_cast<void>(cudaGetLastError());
  });
}

}  // namespace gpurdma::memory
