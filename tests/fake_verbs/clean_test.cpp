// The fake itself: what goes well on an adapter goes well here.

#include "support.hpp"

namespace gpurdma::test {
namespace {

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

}  // namespace
}  // namespace gpurdma::test
