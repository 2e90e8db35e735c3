#include "memory/cuda_error.hpp"

#include <system_error>

#include "memory/gpu.hpp"

namespace gpurdma::memory {
namespace {

class category final : public std::error_category {
 public:
  [[nodiscard]] const char* name() const noexcept override { return "cuda"; }
  [[nodiscard]] std::string message(int value) const override {
    const auto error = static_cast<cudaError_t>(value);
    return std::string{cudaGetErrorName(error)} + ": " + cudaGetErrorString(error);
  }
  /// So that callers need not know CUDA for what can happen with any memory.
  [[nodiscard]] std::error_condition default_error_condition(int value) const noexcept override {
    switch (value) {
      case cudaErrorMemoryAllocation:
        return std::errc::not_enough_memory;
      case cudaErrorNoDevice:
      case cudaErrorInvalidDevice:
        return std::errc::no_such_device;
      case cudaErrorNotSupported:
        return std::errc::operation_not_supported;
      default:
        return {value, *this};
    }
  }
};

}  // namespace

const std::error_category& cuda_category() noexcept {
  static const category instance;
  return instance;
}

bool is_gpu_lost(const std::error_code& error) noexcept {
  if (error == std::errc::timed_out) {
    return true;
  }
  if (error.category() != cuda_category()) {
    return false;
  }
  switch (error.value()) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

std::string remedy_of(cudaError_t error) {
  switch (error) {
    case cudaErrorMemoryAllocation:
      return "make buffers smaller, or end what else uses this GPU (nvidia-smi lists it)";
    case cudaErrorInsufficientDriver:
      return "install NVIDIA's driver, or one that is recent enough for CUDA " + std::to_string(CUDART_VERSION / 1000) +
             "." + std::to_string(CUDART_VERSION % 1000 / 10);
    case cudaErrorNoDevice:
      return "see whether nvidia-smi lists a GPU, this user may open /dev/nvidia*, and CUDA_VISIBLE_DEVICES hides none";
    case cudaErrorDevicesUnavailable:
      return "another process has the GPU for itself, or it is in a prohibited mode: see `nvidia-smi -q -d COMPUTE`";
    case cudaErrorInitializationError:
    case cudaErrorUnknown:
      return "see whether the module nvidia_uvm is loaded and /dev/nvidia-uvm is there (nvidia-modprobe -u -c=0), and "
             "`dmesg | grep -i -e xid -e nvrm`";
    case cudaErrorSystemNotReady:
      return "start the fabric manager (systemctl start nvidia-fabricmanager)";
    case cudaErrorSystemDriverMismatch:
      return "driver library and kernel module differ: load the module of the installed driver, or reboot";
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return "this program was not built for this GPU: rebuild it with its architecture in CMAKE_CUDA_ARCHITECTURES";
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
      return "a fault of the hardware: see `dmesg | grep -i xid` and `nvidia-smi -q`, reset or replace the GPU";
    case cudaErrorNotSupported:
      return "this driver or GPU does not offer it";
    default:
      return is_gpu_lost({static_cast<int>(error), cuda_category()})
                 ? "the GPU's context is lost: restart this process; see `dmesg | grep -i xid`"
                 : "";
  }
}

void throw_cuda_error(cudaError_t error, const std::string& what) {
  const auto remedy = remedy_of(error);
  throw std::system_error{static_cast<int>(error), cuda_category(), what + (remedy.empty() ? "" : " (" + remedy + ")")};
}

void* find_driver_call(const char* name, unsigned version) {
  void* call = nullptr;
  cudaDriverEntryPointQueryResult found{};
  const auto error = cudaGetDriverEntryPointByVersion(name, &call, version, cudaEnableDefault, &found);
  require(error, std::string{"the driver cannot be asked for "} + name);
  if (found != cudaDriverEntryPointSuccess || call == nullptr) {
    throw_cuda_error(cudaErrorCallRequiresNewerDriver, std::string{"the driver has no "} + name);
  }
  return call;
}

}  // namespace gpurdma::memory
