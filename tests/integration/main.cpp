#include <gtest/gtest.h>

#include <string>

#include "tests/integration/support/stepper.hpp"

int main(int argc, char** argv) {
  if (argc == 3 && std::string{argv[1]} == "stepper") {
    return gpurdma::test::stepper_main(argv[2]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
