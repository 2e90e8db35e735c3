#include "tests/integration/support/stepper.hpp"

#include <cstdio>
#include <filesystem>
#include <iostream>

#include "tests/integration/support/peer.hpp"

namespace gpurdma::test {
namespace {

void pause_at(const std::string& step) {
  std::printf("at %s\n", step.c_str());
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
}

}  // namespace

std::vector<std::string> stepper_command(const std::string& step) {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), "stepper", step};
}

int stepper_main(const std::string& step) {
  peer p;
  p.resolve();
  if (step == "resolved") {
    pause_at(step);
    return 0;
  }
  if (step == "requested") {
    p.request_connection(protocol::encode(protocol::hello{}));
    pause_at(step);
    return 0;
  }
  p.connect();
  if (step == "connected") {
    pause_at(step);
    return 0;
  }
  if (step == "open_sent") {
    p.send(1, protocol::open{.name = "demo"});
    pause_at(step);
    return 0;
  }
  const auto lease = p.open("demo");
  if (step == "leased") {
    pause_at(step);
    return 0;
  }
  if (step == "reading") {
    p.start_read(lease.address, lease.rkey, 4096);
    pause_at(step);
    return 0;
  }
  std::ignore = p.read(lease.address, lease.rkey, 4096);
  if (step == "released") {
    std::ignore = p.ask<protocol::released>(protocol::release{lease.id, 4096});
  }
  pause_at(step);
  return 0;
}

}  // namespace gpurdma::test
