#pragma once

// Where events are written: to journald with structured fields where standard error is the journal, else to standard
// error as lines. Like any write to standard error it waits for who reads it.

#include <string>
#include <string_view>
#include <vector>

#include "daemon/event.hpp"

namespace gpurdma::daemon {

struct log_record {
  log_level level;
  std::string_view name;
  std::string_view message_id;  ///< 32 hexadecimal digits
  std::string_view text;
  const std::vector<field>& fields;
};

void write_log(const log_record& record);

/// The record as journald takes it, "NAME=value" each: MESSAGE, PRIORITY, MESSAGE_ID, GPURDMA_EVENT, and of each field
/// GPURDMA_ and its name in capitals.
[[nodiscard]] std::vector<std::string> journal_fields(const log_record& record);

/// Whether `fd` is the stream that `journal_stream` ($JOURNAL_STREAM, "DEVICE:INODE") names; it may be null.
[[nodiscard]] bool is_journal(int fd, const char* journal_stream) noexcept;

}  // namespace gpurdma::daemon
