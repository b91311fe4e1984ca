#include "worker/shim/exit_record.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/core/status_macros.h"
#include "worker/shim/small_file.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

std::string RecordPath(const std::string& trainer_dir) {
  return absl::StrCat(trainer_dir, "/", trainer_dir::kExit);
}

bool ParseLine(absl::string_view line, ExitRecord& record) {
  const std::pair<absl::string_view, absl::string_view> entry =
      absl::StrSplit(line, absl::MaxSplits('=', 1));
  if (entry.first == "exit_code") return absl::SimpleAtoi(entry.second, &record.exit_code);
  if (entry.first == "signal") return absl::SimpleAtoi(entry.second, &record.signal);
  if (entry.first == "out_of_memory") return absl::SimpleAtob(entry.second, &record.out_of_memory);
  if (entry.first == "end_ns") return absl::SimpleAtoi(entry.second, &record.end_ns);
  if (entry.first == "is_input_error") {
    return absl::SimpleAtob(entry.second, &record.is_input_error);
  }
  if (entry.first == "start_error") record.start_error = std::string(entry.second);
  return true;
}

}  // namespace

absl::Status WriteExitRecord(const std::string& trainer_dir, const ExitRecord& record) {
  const std::string start_error = absl::StrReplaceAll(record.start_error, {{"\n", " "}});
  return WriteSmallFile(
      RecordPath(trainer_dir),
      absl::StrCat("exit_code=", record.exit_code, "\nsignal=", record.signal,
                   "\nout_of_memory=", record.out_of_memory ? 1 : 0, "\nend_ns=", record.end_ns,
                   "\nis_input_error=", record.is_input_error ? 1 : 0,
                   "\nstart_error=", start_error, "\nend=1\n"));
}

absl::StatusOr<std::optional<ExitRecord>> ReadExitRecord(const std::string& trainer_dir) {
  const std::string path = RecordPath(trainer_dir);
  PACELINE_ASSIGN_OR_RETURN(const std::optional<std::string> contents, ReadSmallFile(path));
  if (!contents.has_value()) return std::nullopt;
  const std::string& text = *contents;
  ExitRecord record;
  bool whole = absl::EndsWith(text, "\nend=1\n");
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    whole = ParseLine(line, record) && whole;
  }
  if (!whole) return absl::DataLossError(absl::StrCat(path, " is damaged"));
  return record;
}

}  // namespace paceline
