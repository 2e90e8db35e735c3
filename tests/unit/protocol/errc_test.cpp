#include "protocol/errc.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "protocol/message.hpp"

namespace gpurdma::protocol {
namespace {

struct row {
  std::uint16_t number;
  errc code;
  std::string_view name;
};

// As docs/protocol.md, "Codes", has them: these numbers never change.
constexpr row sent[] = {
    {1, errc::unspecified, "unspecified"},
    {16, errc::wrong_magic, "wrong_magic"},
    {17, errc::no_common_version, "no_common_version"},
    {18, errc::malformed_handshake, "malformed_handshake"},
    {19, errc::too_many_clients, "too_many_clients"},
    {20, errc::unknown_session, "unknown_session"},
    {21, errc::out_of_resources, "out_of_resources"},
    {22, errc::shutting_down, "shutting_down"},
    {23, errc::too_many_connections, "too_many_connections"},
    {32, errc::malformed_message, "malformed_message"},
    {33, errc::unexpected_message, "unexpected_message"},
    {34, errc::too_many_requests, "too_many_requests"},
    {35, errc::unknown_buffer, "unknown_buffer"},
    {36, errc::range_outside_buffer, "range_outside_buffer"},
    {37, errc::too_many_leases, "too_many_leases"},
    {38, errc::unknown_lease, "unknown_lease"},
    {39, errc::lease_expired, "lease_expired"},
    {40, errc::version_replaced, "version_replaced"},
    {41, errc::buffer_unavailable, "buffer_unavailable"},
    {42, errc::dropped_by_operator, "dropped_by_operator"},
};
constexpr row local[] = {
    {64, errc::peer_silent, "peer_silent"},
    {65, errc::reply_overdue, "reply_overdue"},
    {66, errc::answers_not_taken, "answers_not_taken"},
};

TEST(errc, has_the_documented_numbers_and_names) {
  for (const auto& r : sent) {
    EXPECT_EQ(static_cast<std::uint16_t>(r.code), r.number);
    EXPECT_EQ(name_of(r.code), r.name);
    EXPECT_EQ(errc_from_wire(r.number), r.code);
  }
}

TEST(errc, takes_every_other_number_of_the_wire_for_unspecified) {
  std::set<std::uint16_t> known;
  for (const auto& r : sent) {
    known.insert(r.number);
  }
  for (unsigned n = 0; n <= 0xFFFF; ++n) {
    const auto number = static_cast<std::uint16_t>(n);
    if (!known.contains(number)) {
      ASSERT_EQ(errc_from_wire(number), errc::unspecified) << number;
    }
  }
}

TEST(errc, names_what_is_never_sent) {
  for (const auto& r : local) {
    EXPECT_EQ(static_cast<std::uint16_t>(r.code), r.number);
    EXPECT_EQ(name_of(r.code), r.name);
  }
}

TEST(errc, has_one_sentence_per_code_and_each_fits_on_the_wire) {
  std::set<std::string> sentences;
  for (const auto& r : sent) {
    const auto sentence = make_error_code(r.code).message();
    EXPECT_TRUE(sentences.insert(sentence).second) << sentence;
    EXPECT_LE(sentence.size(), 136U) << "a refusal would cut: " << sentence;
  }
}

TEST(errc, is_an_error_code_of_its_own_category) {
  const std::error_code code = errc::unknown_buffer;
  EXPECT_EQ(code, errc::unknown_buffer);
  EXPECT_TRUE(code);
  EXPECT_STREQ(code.category().name(), "gpurdma");
  EXPECT_EQ(&code.category(), &protocol_category());
  EXPECT_EQ(code.message(), "there is no buffer of this name");
}

TEST(errc, says_so_of_a_number_that_it_does_not_know) {
  EXPECT_EQ(protocol_category().message(7), "unknown code 7");
  EXPECT_EQ(name_of(static_cast<errc>(7)), "unspecified");
}

}  // namespace
}  // namespace gpurdma::protocol
