// What can be told of GPUs where there is none.

#include "memory/gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <system_error>
#include <vector>

namespace gpurdma::memory {
namespace {

using testing::HasSubstr;

const std::vector<gpu_info> two{{.index = 0,
                                 .name = "NVIDIA H200",
                                 .uuid = "GPU-01234567-89ab-cdef-0123-456789abcdef",
                                 .pci_address = "0000:17:00.0"},
                                {.index = 1,
                                 .name = "NVIDIA H200",
                                 .uuid = "GPU-01239999-89ab-cdef-0123-456789abcdef",
                                 .pci_address = "0001:9a:00.0"}};

TEST(select_gpu, takes_index_uuid_and_pci_address) {
  EXPECT_EQ(select_gpu(two, "0").index, 0);
  EXPECT_EQ(select_gpu(two, "1").index, 1);
  EXPECT_EQ(select_gpu(two, "GPU-01239999-89ab-cdef-0123-456789abcdef").index, 1);
  EXPECT_EQ(select_gpu(two, "GPU-012345").index, 0);
  EXPECT_EQ(select_gpu(two, "0000:17:00.0").index, 0);
  EXPECT_EQ(select_gpu(two, "17:00.0").index, 0);
  EXPECT_EQ(select_gpu(two, "0001:9A:00.0").index, 1);
}

std::string refusal_of(const std::vector<gpu_info>& gpus, const char* selector) {
  try {
    static_cast<void>(select_gpu(gpus, selector));
  } catch (const std::system_error& e) {
    EXPECT_EQ(e.code(), std::errc::no_such_device);
    return e.what();
  }
  return "none";
}

TEST(select_gpu, refuses_others_and_says_what_there_is) {
  for (const auto* const selector : {"2", "-1", "", "00", "GPU-ff", "0000:9a:00.0", "9a:00.0", "H200"}) {
    EXPECT_THAT(refusal_of(two, selector),
                HasSubstr("there is no GPU \"" + std::string{selector} +
                          "\"; this machine has 0: NVIDIA H200 0000:17:00.0 GPU-01234567-89ab-cdef-0123-456789abcdef, "
                          "1: NVIDIA H200 0001:9a:00.0 "));
  }
  EXPECT_THAT(refusal_of(two, "GPU-0123"), HasSubstr("there is more than one GPU \"GPU-0123\""));
  EXPECT_THAT(refusal_of({}, "0"), HasSubstr("there is no GPU \"0\"; this machine has none"));
}

TEST(gpu_info, has_a_label) { EXPECT_EQ(two[1].label(), "GPU 1 (NVIDIA H200 at 0001:9a:00.0)"); }

TEST(gpus, are_absent_with_a_reason) {
  const auto reason = cuda_unavailable();
  if (!reason) {
    GTEST_SKIP() << "this machine has a GPU";
  }
  EXPECT_TRUE(reason->find("built without CUDA") != std::string::npos || reason->find("NVIDIA") != std::string::npos)
      << *reason;
  EXPECT_TRUE(list_gpus().empty());
  try {
    static_cast<void>(find_gpu("0"));
    FAIL() << "found one";
  } catch (const std::system_error& e) {
    EXPECT_THAT(e.what(), HasSubstr(*reason));
  }
}

TEST(is_gpu_lost, is_not_said_of_other_errors) {
  EXPECT_FALSE(is_gpu_lost(std::make_error_code(std::errc::no_such_device)));
  EXPECT_FALSE(is_gpu_lost({2, cuda_category()}));  // cudaErrorMemoryAllocation
}

}  // namespace
}  // namespace gpurdma::memory
