// GPU memory, registered as a dma-buf or not, over a GPU and an adapter that are both made up (tests/fake_cuda).

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>

#include "rdma/gpu_region.hpp"
#include "support.hpp"
#include "tests/fake_cuda/fake_gpu.hpp"

namespace gpurdma::test {
namespace {

using fake_verbs::call;
using testing::HasSubstr;

class gpu_registration : public over_fake_verbs {
 protected:
  gpu_registration() : devices_{rdma_get_devices(nullptr)}, domain{ibv_alloc_pd(*devices_)} {}
  void TearDown() override {
    ::close(fd);
    ibv_dealloc_pd(domain);
    rdma_free_devices(devices_);
    over_fake_verbs::TearDown();
  }
  [[nodiscard]] rdma::gpu_range range(std::uint64_t offset = 0) const {
    return {.gpu = "GPU 0", .address = 0x7000'0000 + offset, .length = 4096, .export_dma_buf = [this, offset] {
              return rdma::dma_buf_place{fd, offset};
            }};
  }
  [[nodiscard]] rdma::gpu_region registered(const rdma::gpu_range& what) const {
    return rdma::register_gpu_memory(*domain, what, rdma::region_access::remote_read);
  }
  /// The error of a registration, which must fail otherwise than for want of any way.
  [[nodiscard]] int error_of(const rdma::gpu_range& what) const {
    try {
      static_cast<void>(registered(what));
    } catch (const std::system_error& e) {
      return e.code().value();
    }
    return 0;
  }
  void refuse(call how, int error) { fake.fail(how, fake_verbs::host::server, 1, error); }

 private:
  ibv_context** devices_;

 protected:
  int fd = memfd_create("dma-buf", MFD_CLOEXEC);
  ibv_pd* domain;
};

TEST_F(gpu_registration, asks_for_exactly_the_range) {
  for (const std::uint64_t offset : {0U, 64U, 4095U, 4096U, 12'345U}) {
    const auto made = registered(range(offset));
    EXPECT_EQ(made.path, rdma::gpu_path::dma_buf);
    const auto last = fake.registrations().back();
    EXPECT_EQ(last.how, call::ibv_reg_dmabuf_mr);
    EXPECT_EQ(last.domain, domain);
    EXPECT_EQ(last.fd, fd);
    EXPECT_EQ(last.offset, offset);
    EXPECT_EQ(last.length, 4096U);
    EXPECT_EQ(last.iova, 0x7000'0000 + offset);
    EXPECT_EQ(last.access, unsigned{IBV_ACCESS_REMOTE_READ});
  }
}

TEST_F(gpu_registration, goes_by_peer_memory_only_where_dma_bufs_are_not_to_be_had) {
  for (const int error : {EOPNOTSUPP, EPROTONOSUPPORT, ENOSYS}) {
    refuse(call::ibv_reg_dmabuf_mr, error);
    const auto made = registered(range());
    EXPECT_EQ(made.path, rdma::gpu_path::peer_memory);
    EXPECT_THAT(made.why, HasSubstr("does not register dma-bufs"));
    const auto last = fake.registrations().back();
    EXPECT_EQ(last.how, call::ibv_reg_mr);
    EXPECT_EQ(last.address, 0x7000'0000U);
    EXPECT_EQ(last.length, 4096U);
    EXPECT_EQ(last.access, unsigned{IBV_ACCESS_REMOTE_READ});
  }
  for (const int error : {ENOMEM, EINVAL, EBADF, EFAULT, EPERM, EIO}) {
    refuse(call::ibv_reg_dmabuf_mr, error);
    EXPECT_EQ(error_of(range()), error);
    EXPECT_EQ(fake.registrations().back().how, call::ibv_reg_dmabuf_mr) << "nothing else was tried";
  }
}

TEST_F(gpu_registration, goes_by_peer_memory_only_where_the_gpu_cannot_export) {
  auto what = range();
  what.export_dma_buf = []() -> rdma::dma_buf_place {
    throw std::system_error{std::make_error_code(std::errc::operation_not_supported), "no dma-buf"};
  };
  const auto made = registered(what);
  EXPECT_EQ(made.path, rdma::gpu_path::peer_memory);
  EXPECT_THAT(made.why, HasSubstr("no dma-buf"));
  what.export_dma_buf = []() -> rdma::dma_buf_place {
    throw std::system_error{std::make_error_code(std::errc::too_many_files_open), "no descriptor"};
  };
  EXPECT_EQ(error_of(what), EMFILE);
}

TEST_F(gpu_registration, is_not_to_be_had_only_where_peer_memory_is_not_either) {
  refuse(call::ibv_reg_dmabuf_mr, EOPNOTSUPP);
  refuse(call::ibv_reg_mr, EFAULT);
  EXPECT_THROW(static_cast<void>(registered(range())), rdma::no_gpu_path);
  for (const int error : {ENOMEM, EINVAL, EPERM, EOPNOTSUPP}) {
    refuse(call::ibv_reg_dmabuf_mr, EOPNOTSUPP);
    refuse(call::ibv_reg_mr, error);
    EXPECT_EQ(error_of(range()), error);
  }
}

class gpu_read : public over_fake_verbs {
 protected:
  gpu_read() { fake_cuda::exports_dma_bufs = true; }
  ~gpu_read() override { fake_cuda::exports_dma_bufs = false; }
};

TEST_F(gpu_read, brings_what_a_gpu_holds) {
  auto settings = server_settings();
  settings.buffers.front().gpu = "0";
  running_server server{fake, settings};
  EXPECT_EQ(fake.registrations().back().how, call::ibv_reg_dmabuf_mr);
  const auto result = read(fake);
  server.stop();
  expect_good(result);
  EXPECT_THAT(log(), HasSubstr("path=dma-buf"));
}

TEST_F(gpu_read, puts_and_checks_the_bytes_in_a_gpu) {
  running_server server{fake, server_settings()};
  auto asked = reader_settings();
  asked.to_gpu = "0";
  const auto whole = read(fake, asked);
  EXPECT_TRUE(whole.good()) << whole.why();
  EXPECT_EQ(whole.outcome.bytes, buffer_size);
  EXPECT_EQ(whole.outcome.verified, buffer_size);
  const auto last = fake.registrations().back();
  EXPECT_EQ(last.how, call::ibv_reg_dmabuf_mr);
  EXPECT_EQ(last.access, unsigned{IBV_ACCESS_LOCAL_WRITE});

  asked.offset = (1U << 20U) - 3;
  asked.length = (1U << 20U) + 10;
  const auto part = read(fake, asked);
  EXPECT_TRUE(part.good()) << part.why();
  EXPECT_EQ(part.outcome.bytes, (1U << 20U) + 10);
  EXPECT_EQ(part.outcome.verified, 1U << 20U) << "the one block that is there as a whole";
  server.stop();
}

TEST_F(gpu_read, into_a_gpu_that_the_adapter_cannot_reach_says_why) {
  running_server server{fake, server_settings()};
  auto asked = reader_settings();
  asked.to_gpu = "0";
  fake.fail(call::ibv_reg_dmabuf_mr, fake_verbs::host::client, 1, ENOMEM);
  const auto result = read(fake, asked);
  EXPECT_EQ(result.status(), client::exit_status::transfer_failed);
  EXPECT_THAT(result.why(), HasSubstr("cannot register a dma-buf"));
  server.stop();
}

}  // namespace
}  // namespace gpurdma::test
