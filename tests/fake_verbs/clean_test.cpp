// The fake itself: what goes well on an adapter goes well here.

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>

#include "support.hpp"

namespace gpurdma::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class clean_run : public over_fake_verbs {};

TEST_F(clean_run, brings_the_right_bytes_and_leaves_nothing) {
  running_server server{fake, server_settings()};
  const auto result = read(fake);
  server.stop();
  expect_good(result);
  EXPECT_EQ(result.outcome.verified, buffer_size);
  EXPECT_FALSE(server.failed());
}

TEST_F(clean_run, serves_one_reader_after_the_other) {
  running_server server{fake, server_settings()};
  for (int i = 0; i < 3; ++i) {
    expect_good(read(fake));
  }
  // On the server each connection used up its own queue pair and nothing of the others.
  EXPECT_TRUE(fake.wait_until([&] { return fake.live(fake_verbs::host::server, "queue pair") == 0; }));
}

class books : public over_fake_verbs {
 protected:
  books() : devices_{rdma_get_devices(nullptr)}, domain{ibv_alloc_pd(*devices_)} {}
  void TearDown() override {
    ibv_dealloc_pd(domain);
    rdma_free_devices(devices_);
    over_fake_verbs::TearDown();
  }

 private:
  ibv_context** devices_;

 protected:
  ibv_pd* domain;
};

TEST_F(books, show_what_was_asked_of_a_dma_buf) {
  const int fd = memfd_create("dma-buf", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  auto* const made = ibv_reg_dmabuf_mr(domain, 64, 4096, 0x7000'0040, fd, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(made, nullptr);
  const auto last = fake.registrations().back();
  EXPECT_EQ(last.how, fake_verbs::call::ibv_reg_dmabuf_mr);
  EXPECT_EQ(last.domain, domain);
  EXPECT_EQ(last.fd, fd);
  EXPECT_EQ(last.offset, 64U);
  EXPECT_EQ(last.length, 4096U);
  EXPECT_EQ(last.iova, 0x7000'0040U);
  EXPECT_EQ(last.access, unsigned{IBV_ACCESS_REMOTE_READ});
  EXPECT_EQ(last.error, 0);
  ::close(fd);
  ibv_dereg_mr(made);
}

TEST_F(books, show_a_dma_buf_that_was_refused) {
  EXPECT_EQ(ibv_reg_dmabuf_mr(domain, 0, 4096, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EBADF);
  fake.fail(fake_verbs::call::ibv_reg_dmabuf_mr, fake_verbs::host::server, 1, EOPNOTSUPP);
  EXPECT_EQ(ibv_reg_dmabuf_mr(domain, 0, 4096, 0, -1, 0), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(fake.registrations().back().error, EOPNOTSUPP);
}

TEST_F(books, name_what_lives_and_what_is_destroyed_in_the_wrong_order) {
  std::byte memory{};
  auto* const region = ibv_reg_mr(domain, &memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
  EXPECT_THAT(fake.live(), testing::Contains("a memory region of the server is left"));
  EXPECT_NE(ibv_dealloc_pd(domain), 0);
  EXPECT_THAT(fake.take_violations(), ElementsAre(HasSubstr("still has a region")));
  ibv_dereg_mr(region);
}

}  // namespace
}  // namespace gpurdma::test
