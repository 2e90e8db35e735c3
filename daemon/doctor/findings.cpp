#include "daemon/doctor/findings.hpp"

#include <algorithm>
#include <array>
#include <boost/json/array.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <exception>
#include <future>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

namespace gpurdma::daemon::doctor {
namespace {

std::string_view name_of(verdict v) {
  constexpr std::array<std::string_view, 3> names{"ok", "warn", "fail"};
  return names.at(static_cast<std::size_t>(v));
}

/// For the table, where one that fails should meet the eye.
std::string_view mark_of(verdict v) {
  constexpr std::array<std::string_view, 3> marks{"ok  ", "WARN", "FAIL"};
  return marks.at(static_cast<std::size_t>(v));
}

std::size_t count(const findings& rows, verdict v) {
  return static_cast<std::size_t>(std::ranges::count(rows, v, &finding::result));
}

std::string padded(const std::string& text, std::size_t width) {
  return text + std::string(width - std::min(width, text.size()), ' ');
}

std::string hexadecimal(std::uint32_t value) {
  std::array<char, 9> text{};
  std::snprintf(text.data(), text.size(), "%08x", value);
  return text.data();
}

boost::json::object to_json(const read_measurement& of) {
  return {{"path", of.path}, {"bytes", of.bytes}, {"seconds", of.seconds}, {"crc32c", hexadecimal(of.crc32c)}};
}

}  // namespace

verdict worst_of(const findings& rows) noexcept {
  const auto worst = std::ranges::max_element(rows, {}, &finding::result);
  return worst == rows.end() ? verdict::ok : worst->result;
}

std::string table(const findings& rows) {
  std::size_t check_width = 0;
  std::size_t subject_width = 0;
  for (const auto& row : rows) {
    check_width = std::max(check_width, row.check.size());
    subject_width = std::max(subject_width, row.subject.size());
  }
  std::string text;
  for (const auto& row : rows) {
    text += std::string{mark_of(row.result)} + "  " + padded(row.check, check_width) + "  " +
            padded(row.subject, subject_width) + "  " + row.what + "\n";
    if (!row.remedy.empty()) {
      text += "      -> " + row.remedy + "\n";
    }
  }
  return text + std::to_string(count(rows, verdict::ok)) + " ok, " + std::to_string(count(rows, verdict::warn)) +
         " to look at, " + std::to_string(count(rows, verdict::fail)) + " failed\n";
}

std::string json(const findings& rows, int status) {
  boost::json::array checks;
  for (const auto& row : rows) {
    boost::json::object shown{{"check", row.check},
                              {"subject", row.subject},
                              {"result", name_of(row.result)},
                              {"what", row.what},
                              {"remedy", row.remedy}};
    if (row.measured) {
      shown["read"] = to_json(*row.measured);
    }
    checks.push_back(std::move(shown));
  }
  const boost::json::object top{{"status", status},
                                {"ok", count(rows, verdict::ok)},
                                {"warn", count(rows, verdict::warn)},
                                {"fail", count(rows, verdict::fail)},
                                {"checks", std::move(checks)}};
  return boost::json::serialize(top) + "\n";
}

bool checklist::attempt(const std::string& check, std::chrono::milliseconds limit, std::function<void()> work) {
  std::packaged_task<void()> task{std::move(work)};
  auto done = task.get_future();
  try {
    std::thread{std::move(task)}.detach();
    if (done.wait_for(limit) != std::future_status::ready) {
      stuck_ = true;
      add({verdict::fail, check, "", "no answer within " + std::to_string(limit.count()) + " ms",
           "a driver or device hangs: see dmesg"});
      return false;
    }
    done.get();
    return true;
  } catch (const std::exception& e) {
    add({verdict::fail, check, "", e.what(), "this check could not be made; the rows above may say why"});
    return false;
  }
}

void checklist::run(const std::string& check, std::chrono::milliseconds limit, std::function<findings()> work) {
  if (auto found = find_out<findings>(check, limit, std::move(work))) {
    std::ranges::move(*found, std::back_inserter(rows_));
  }
}

}  // namespace gpurdma::daemon::doctor
