# Everything comes from the distribution's packages; nothing is downloaded. Package names are those of Debian 12 and
# Ubuntu 24.04; `./quickstart` installs them.
find_package(Boost 1.81 REQUIRED)  # libboost1.81-dev (Debian 12's default 1.74 is too old), libboost-dev (Ubuntu)
find_package(Threads REQUIRED)
find_package(spdlog REQUIRED)      # libspdlog-dev
find_package(yaml-cpp REQUIRED)    # libyaml-cpp-dev
find_package(CLI11 REQUIRED)       # libcli11-dev
find_package(OpenSSL REQUIRED)     # libssl-dev
find_package(PkgConfig REQUIRED)   # pkg-config
pkg_check_modules(ibverbs REQUIRED IMPORTED_TARGET libibverbs)  # libibverbs-dev
pkg_check_modules(rdmacm REQUIRED IMPORTED_TARGET librdmacm)    # librdmacm-dev
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)        # libisal-dev
pkg_check_modules(systemd REQUIRED IMPORTED_TARGET libsystemd)  # libsystemd-dev
if(BUILD_TESTING)
  find_package(GTest REQUIRED)     # libgtest-dev, libgmock-dev
endif()
