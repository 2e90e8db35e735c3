#pragma once

#include <gtest/gtest.h>

namespace gpurdma::test {

template <typename Answer>
Answer peer::ask(protocol::body request) {
  const auto id = ++last_request_;
  send(id, std::move(request));
  while (const auto m = receive()) {
    if (m->request_id != id) {
      continue;  // a notice
    }
    if (const auto* const wanted = std::get_if<Answer>(&m->content)) {
      return *wanted;
    }
    const auto* const e = std::get_if<protocol::error>(&m->content);
    ADD_FAILURE() << "answered otherwise: " << (e != nullptr ? e->sentence : "");
    return {};
  }
  ADD_FAILURE() << "not answered";
  return {};
}

inline protocol::lease peer::open(const std::string& name, std::uint64_t offset, std::uint64_t length) {
  return ask<protocol::lease>(protocol::open{name, offset, length});
}

}  // namespace gpurdma::test
