#include "worker/daemon/logs/log_marks.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "worker/daemon/logs/log_files.h"

namespace paceline {
namespace {

struct Mark {
  int64_t ms = 0;  // Unix time in milliseconds.
  int64_t offset = 0;
};

// Returns the marks in file order, without a last line that a power loss cut off.
std::vector<Mark> ReadMarks(const std::string& path) {
  std::vector<Mark> marks;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    Mark mark;
    if (words.size() == 2 && absl::SimpleAtoi(words[0], &mark.ms) &&
        absl::SimpleAtoi(words[1], &mark.offset)) {
      marks.push_back(mark);
    }
  }
  return marks;
}

// Writes a file that only the worker can read, like all its files about a trainer.
void Write(const std::string& path, std::ios::openmode mode, const std::string& lines) {
  std::ofstream(path, mode) << lines;
  std::error_code ignored;
  std::filesystem::permissions(
      path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write, ignored);
}

std::string LineOf(const Mark& mark) { return absl::StrCat(mark.ms, " ", mark.offset, "\n"); }

}  // namespace

void LogMarks::Add(absl::Time now) const {
  const absl::StatusOr<LogFiles::End> end = LogFiles(dir_).FindEnd();
  if (!end.ok()) return;
  std::vector<Mark> marks = ReadMarks(file_);
  if (!marks.empty() && marks.back().offset >= end->offset) return;
  // Rounded up, so that everything before the offset was written before the mark's time.
  const Mark mark = {absl::ToUnixMillis(now) + 1, end->offset};
  if (marks.size() < kMostMarks) {
    Write(file_, std::ios::app, LineOf(mark));
    return;
  }
  std::string kept;
  for (size_t i = 0; i < marks.size(); i += 2) absl::StrAppend(&kept, LineOf(marks[i]));
  const std::string thinned = absl::StrCat(file_, ".tmp");
  Write(thinned, std::ios::trunc, absl::StrCat(kept, LineOf(mark)));
  std::error_code ignored;
  std::filesystem::rename(thinned, file_, ignored);
}

int64_t LogMarks::OffsetAfter(absl::Time time) const {
  const LogFiles log(dir_);
  const absl::StatusOr<LogFiles::End> end = log.FindEnd();
  if (!end.ok()) return 0;
  if (end->written < time) return end->offset;
  int64_t offset = 0;
  for (const Mark& mark : ReadMarks(file_)) {
    if (mark.ms <= absl::ToUnixMillis(time)) offset = mark.offset;
  }
  return log.LineFrom(offset);
}

}  // namespace paceline
