#include "daemon/logging.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <memory>

#define SD_JOURNAL_SUPPRESS_LOCATION  // the place in the source says nothing to an operator
#include <systemd/sd-journal.h>

namespace gpurdma::daemon {
namespace {

std::size_t index_of(log_level level) noexcept { return static_cast<std::size_t>(level); }

void write_line(const log_record& record) {
  constexpr std::array levels{spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
  static spdlog::logger logger = [] {
    spdlog::logger made{"gpurdma-server", std::make_shared<spdlog::sinks::stderr_sink_mt>()};
    made.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    made.set_level(spdlog::level::trace);
    made.flush_on(spdlog::level::trace);
    return made;
  }();
  logger.log(levels.at(index_of(record.level)), spdlog::string_view_t{record.text.data(), record.text.size()});
}

/// Whether journald took it.
bool write_journal(const log_record& record) {
  auto entry = journal_fields(record);
  std::vector<iovec> parts;
  parts.reserve(entry.size());
  for (auto& part : entry) {
    parts.push_back({part.data(), part.size()});
  }
  return sd_journal_sendv(parts.data(), static_cast<int>(parts.size())) == 0;
}

}  // namespace

void write_log(const log_record& record) {
  static const bool journal = is_journal(STDERR_FILENO, std::getenv("JOURNAL_STREAM"));
  if (!journal || !write_journal(record)) {
    write_line(record);
  }
}

std::vector<std::string> journal_fields(const log_record& record) {
  constexpr std::array priorities{"7", "6", "4", "3"};  // syslog(3)
  std::vector<std::string> entry{"MESSAGE=" + std::string{record.text},
                                 std::string{"PRIORITY="} + priorities.at(index_of(record.level)),
                                 "MESSAGE_ID=" + std::string{record.message_id}, "SYSLOG_IDENTIFIER=gpurdma-server",
                                 "GPURDMA_EVENT=" + std::string{record.name}};
  for (const auto& f : record.fields) {
    auto& part = entry.emplace_back("GPURDMA_");
    for (const char c : f.name) {
      part += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
    part += '=';
    part += f.value;
  }
  return entry;
}

bool is_journal(int fd, const char* journal_stream) noexcept {
  struct stat status {};
  if (journal_stream == nullptr || fstat(fd, &status) != 0) {
    return false;
  }
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) == journal_stream;
}

}  // namespace gpurdma::daemon
