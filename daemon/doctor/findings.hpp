#pragma once

// What the doctor found: rows of a table, for people and as JSON.

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gpurdma::daemon::doctor {

enum class verdict {
  ok,
  warn,  ///< the server may start, but not everything will be well
  fail,  ///< what the configuration asks for, or all serving, will not work
};

/// What a READ over an adapter has shown.
struct read_measurement {
  std::string path;         ///< how the adapter reaches the memory: "host", "dma-buf", "nvidia-peermem", "staged"
  std::uint64_t bytes = 0;  ///< read
  double seconds = 0;       ///< from posting the first READ to the completion of the last
  std::uint32_t crc32c = 0;
};

struct finding {
  verdict result = verdict::ok;
  std::string check;     ///< "memlock"
  std::string subject;   ///< "mlx5_0 port 1"; empty for the machine as a whole
  std::string what;      ///< what there is, or what is wrong and why
  std::string remedy{};  ///< what to do; empty where all is well
  std::optional<read_measurement> measured{};
};
using findings = std::vector<finding>;

[[nodiscard]] verdict worst_of(const findings& rows) noexcept;
/// For people: a line for each row, below it the remedy; last a line that counts. The verdict comes first.
[[nodiscard]] std::string table(const findings& rows);
/// One object, see docs/operations.md; `status` is the program's exit status. With a newline.
[[nodiscard]] std::string json(const findings& rows, int status);

/// Collects rows, and lets no check keep or end the doctor.
class checklist {
 public:
  /// Runs `work` on a thread and takes its rows. Where it throws, or takes longer than `limit`, a failed row of `check`
  /// says so. Work that is late is left behind: it must own what it uses, and the process must then be left without
  /// waiting for it, see is_stuck().
  void run(const std::string& check, std::chrono::milliseconds limit, std::function<findings()> work);
  /// The same for work that finds out what later checks need: nothing where it failed.
  template <typename T>
  [[nodiscard]] std::optional<T> find_out(const std::string& check, std::chrono::milliseconds limit,
                                          std::function<T()> work) {
    auto found = std::make_shared<std::optional<T>>();
    const bool done = attempt(check, limit, [found, work = std::move(work)] { *found = work(); });
    return done ? std::move(*found) : std::nullopt;
  }
  void add(finding row) { rows_.push_back(std::move(row)); }

  [[nodiscard]] const findings& rows() const noexcept { return rows_; }
  /// Some work has not come back.
  [[nodiscard]] bool is_stuck() const noexcept { return stuck_; }

 private:
  /// Whether `work` came back in time and without an exception.
  bool attempt(const std::string& check, std::chrono::milliseconds limit, std::function<void()> work);

  findings rows_;
  bool stuck_ = false;
};

}  // namespace gpurdma::daemon::doctor
