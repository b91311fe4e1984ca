#include "worker/shim/exit_record.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "worker/shim/trainer_dir.h"

namespace paceline {
namespace {

constexpr size_t kMaxRecordBytes = 4096;

std::string RecordPath(const std::string& trainer_dir) {
  return absl::StrCat(trainer_dir, "/", trainer_dir::kExit);
}

bool ParseLine(absl::string_view line, ExitRecord& record) {
  const std::pair<absl::string_view, absl::string_view> entry =
      absl::StrSplit(line, absl::MaxSplits('=', 1));
  if (entry.first == "exit_code") return absl::SimpleAtoi(entry.second, &record.exit_code);
  if (entry.first == "signal") return absl::SimpleAtoi(entry.second, &record.signal);
  if (entry.first == "out_of_memory") return absl::SimpleAtob(entry.second, &record.out_of_memory);
  if (entry.first == "start_error") record.start_error = std::string(entry.second);
  return true;
}

}  // namespace

// Not synced: after a loss of power the trainer is gone whatever the record says.
absl::Status WriteExitRecord(const std::string& trainer_dir, const ExitRecord& record) {
  const std::string path = RecordPath(trainer_dir);
  const std::string temporary = path + ".new";
  const std::string text = absl::StrCat(
      "exit_code=", record.exit_code, "\nsignal=", record.signal,
      "\nout_of_memory=", record.out_of_memory ? 1 : 0,
      "\nstart_error=", absl::StrReplaceAll(record.start_error, {{"\n", " "}}), "\nend=1\n");
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", temporary));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  if (!written || ::rename(temporary.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<ExitRecord>> ReadExitRecord(const std::string& trainer_dir) {
  const std::string path = RecordPath(trainer_dir);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno == ENOENT) return std::nullopt;
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  std::string text(kMaxRecordBytes, '\0');
  const ssize_t size = ::read(fd, text.data(), text.size());
  ::close(fd);
  if (size < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  text.resize(static_cast<size_t>(size));
  ExitRecord record;
  bool whole = absl::EndsWith(text, "\nend=1\n");
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    whole = ParseLine(line, record) && whole;
  }
  if (!whole) return absl::DataLossError(absl::StrCat(path, " is damaged"));
  return record;
}

}  // namespace paceline
