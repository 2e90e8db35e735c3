#pragma once

// Shared by the tests that need files.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gpurdma::test {

/// A folder that is gone at the end, with all that is in it.
class scratch_folder {
 public:
  scratch_folder() {
    auto name = (std::filesystem::temp_directory_path() / "gpurdma-unit-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) {
      throw std::runtime_error{"cannot create " + name};
    }
    path_ = name;
  }
  scratch_folder(const scratch_folder&) = delete;
  scratch_folder& operator=(const scratch_folder&) = delete;
  ~scratch_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] std::filesystem::path operator/(std::string_view name) const { return path_ / name; }
  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

  /// The path of a new file that holds `content`.
  std::filesystem::path write(std::string_view name, std::string_view content) const {
    std::ofstream{path_ / name, std::ios::binary} << content;
    return path_ / name;
  }
  /// How many entries it has.
  [[nodiscard]] std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator{path_}, {}));
  }

 private:
  std::filesystem::path path_;
};

inline std::string content_of(const std::filesystem::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

/// While it lives, file permissions count, even where root runs the tests.
class ordinary_user {
 public:
  ordinary_user() : before_{geteuid()} {
    constexpr uid_t nobody = 65534;
    if (before_ == 0 && seteuid(nobody) != 0) {
      throw std::runtime_error{"cannot become an ordinary user"};
    }
  }
  ordinary_user(const ordinary_user&) = delete;
  ordinary_user& operator=(const ordinary_user&) = delete;
  ~ordinary_user() {
    if (seteuid(before_) != 0) {
      std::abort();
    }
  }

 private:
  uid_t before_;
};

}  // namespace gpurdma::test
