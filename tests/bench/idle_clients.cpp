// idle_clients COUNT: COUNT clients connect to this machine's server, say nothing more, and stay until standard input
// ends. For the memory that the server takes for each.

#include <cstdio>
#include <cstdlib>
#include <list>

#include "tests/integration/support/peer.hpp"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: idle_clients COUNT\n");
    return 1;
  }
  const auto count = std::strtoul(argv[1], nullptr, 10);
  std::list<gpurdma::test::peer> clients;
  while (clients.size() < count) {
    clients.emplace_back();
    clients.back().resolve();
    if (!clients.back().connect()) {
      std::fprintf(stderr, "idle_clients: refused after %zu\n", clients.size() - 1);
      return 1;
    }
  }
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
