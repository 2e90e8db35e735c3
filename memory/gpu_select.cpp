// What needs no CUDA: naming GPUs.

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "memory/gpu.hpp"

namespace gpurdma::memory {
namespace {

std::string in_lower_case(std::string_view text) {
  std::string lower{text};
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

bool is_named(const gpu_info& by, const std::string& selector) {
  const auto address = in_lower_case(by.pci_address);
  return selector == std::to_string(by.index) || selector == address || "0000:" + selector == address ||
         (selector.starts_with("gpu-") && in_lower_case(by.uuid).starts_with(selector));
}

std::string list_of(const std::vector<gpu_info>& gpus) {
  if (gpus.empty()) {
    return "this machine has none";
  }
  std::string list = "this machine has ";
  for (const auto& g : gpus) {
    list +=
        (list.back() == ' ' ? "" : ", ") + std::to_string(g.index) + ": " + g.name + " " + g.pci_address + " " + g.uuid;
  }
  return list;
}

}  // namespace

std::string gpu_info::label() const {
  return "GPU " + std::to_string(index) + " (" + name + " at " + pci_address + ")";
}

const gpu_info& select_gpu(const std::vector<gpu_info>& gpus, std::string_view selector) {
  const auto wanted = in_lower_case(selector);
  const auto fail = [&](const char* how_many) {
    throw std::system_error{std::make_error_code(std::errc::no_such_device),
                            std::string{how_many} + " \"" + std::string{selector} + "\"; " + list_of(gpus) +
                                "; name one by index, UUID or PCI address"};
  };
  const auto matches = std::ranges::count_if(gpus, [&](const auto& g) { return is_named(g, wanted); });
  if (matches == 0) {
    fail("there is no GPU");
  }
  if (matches > 1) {
    fail("there is more than one GPU");
  }
  return *std::ranges::find_if(gpus, [&](const auto& g) { return is_named(g, wanted); });
}

}  // namespace gpurdma::memory
