#include "worker/daemon/logs/log_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/core/last_written.h"
#include "common/core/status_macros.h"
#include "common/foreign_dir.h"

namespace paceline {
namespace {

constexpr size_t kNameDigits = 20;
// A segment may be deleted between being listed and being opened.
constexpr int kAttempts = 3;
// Granularity at which file systems free space, in bytes.
constexpr int64_t kBlock = 4096;
// A log that was not rotated in time may take this many times the size of its full segments.
constexpr int64_t kSlack = 2;

struct Segment {
  int64_t base = 0;
  std::string name;
};

std::optional<Segment> ParseSegment(const std::string& name) {
  absl::string_view stem = name;
  Segment segment{0, name};
  if (!absl::ConsumeSuffix(&stem, ".log") || stem.size() != kNameDigits ||
      !absl::SimpleAtoi(stem, &segment.base) || segment.base < 0 ||
      segment.base > LogFiles::kMaxOffset) {
    return std::nullopt;
  }
  return segment;
}

struct Log {
  ForeignDir dir;
  std::vector<Segment> segments;  // Sorted by base.
  bool whole = true;              // False when the directory has too many entries.
};

// NotFound when there is no segment, unless the directory has too many entries to know.
absl::StatusOr<Log> OpenLog(const std::string& path) {
  const auto [directory, name] = SplitPath(path);
  PACELINE_ASSIGN_OR_RETURN(const ForeignDir parent, ForeignDir::Open(directory));
  PACELINE_ASSIGN_OR_RETURN(ForeignDir dir, parent.OpenDir(name));
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, dir.Names(LogFiles::kMaxEntries));
  Log log = {std::move(dir), {}, names.size() < LogFiles::kMaxEntries};
  for (const std::string& entry : names) {
    if (std::optional<Segment> segment = ParseSegment(entry)) {
      log.segments.push_back(*std::move(segment));
    }
  }
  if (log.segments.empty() && log.whole) {
    return absl::NotFoundError(absl::StrCat("no log in ", path));
  }
  std::sort(log.segments.begin(), log.segments.end(),
            [](const Segment& a, const Segment& b) { return a.base < b.base; });
  return log;
}

// Like OpenLog, but fails unless the whole directory was listed. For reading.
absl::StatusOr<Log> OpenWholeLog(const std::string& path) {
  absl::StatusOr<Log> log = OpenLog(path);
  if (!log.ok() || log->whole) return log;
  return absl::ResourceExhaustedError(absl::StrCat(
      path, " has ", LogFiles::kMaxEntries, " entries or more, and a log of so many is not read"));
}

int64_t SizeOf(const ForeignFile& segment) {
  return std::min<int64_t>(segment.info().st_size, LogFiles::kMaxOffset);
}

// Offset of the first byte that was not cut off.
int64_t BeginOf(const ForeignFile& segment) {
  return std::max<int64_t>(0, ::lseek(segment.fd(), 0, SEEK_DATA));
}

// Frees the disk space before `offset`. Offsets in the segment stay valid.
void CutBefore(const ForeignFile& segment, int64_t offset) {
  const int64_t bytes = offset / kBlock * kBlock;
  if (bytes <= BeginOf(segment)) return;
  if (::fallocate(segment.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes) == 0) return;
  // The file system cannot punch holes: better no log than a full disk. If this fails, give up.
  if (errno == EOPNOTSUPP && ::ftruncate(segment.fd(), 0) != 0) return;
}

// Length of the valid UTF-8 sequence at `at`; 0 if there is none.
size_t SequenceAt(const std::string& text, size_t at) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xc2 && first < 0xe0   ? 2
                        : first >= 0xe0 && first < 0xf0 ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool surrogate = first == 0xed && second >= 0xa0;
  const bool too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

}  // namespace

absl::StatusOr<LogFiles::Chunk> LogFiles::Read(int64_t offset) const {
  absl::Status failure;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    PACELINE_ASSIGN_OR_RETURN(const Log log, OpenWholeLog(dir_));
    Chunk chunk;
    chunk.offset = std::max(offset, log.segments.front().base);
    auto segment =
        std::upper_bound(log.segments.begin(), log.segments.end(), chunk.offset,
                         [](int64_t at, const Segment& candidate) { return at < candidate.base; });
    --segment;
    absl::StatusOr<ForeignFile> file = log.dir.OpenFile(segment->name);
    if (file.ok() && chunk.offset - segment->base >= SizeOf(*file) &&
        segment + 1 != log.segments.end()) {
      // Bytes are missing before the next segment: continue with that one.
      ++segment;
      chunk.offset = segment->base;
      file = log.dir.OpenFile(segment->name);
    }
    if (file.ok()) {
      chunk.offset = std::max(chunk.offset, segment->base + BeginOf(*file));
      PACELINE_ASSIGN_OR_RETURN(chunk.data, file->Read(chunk.offset - segment->base, kMaxChunk));
      return chunk;
    }
    failure = file.status();
    if (!absl::IsNotFound(failure)) break;
  }
  return failure;
}

absl::StatusOr<int64_t> LogFiles::TailOffset(int lines) const {
  PACELINE_ASSIGN_OR_RETURN(const Log log, OpenWholeLog(dir_));
  bool at_end = true;  // The line end at the very end starts no new line.
  int64_t left = kMaxLookBack;
  int64_t oldest = log.segments.front().base;
  for (auto segment = log.segments.rbegin(); segment != log.segments.rend(); ++segment) {
    const absl::StatusOr<ForeignFile> file = log.dir.OpenFile(segment->name);
    if (absl::IsNotFound(file.status())) break;  // Deleted meanwhile, like all older ones.
    PACELINE_RETURN_IF_ERROR(file.status());
    const int64_t oldest_here = BeginOf(*file);
    oldest = segment->base + oldest_here;
    for (int64_t end = SizeOf(*file); end > oldest_here;) {
      if (left <= 0) return segment->base + end;
      const int64_t begin = std::max<int64_t>(oldest_here, end - static_cast<int64_t>(kMaxChunk));
      left -= end - begin;
      PACELINE_ASSIGN_OR_RETURN(const std::string data,
                                file->Read(begin, static_cast<size_t>(end - begin)));
      for (size_t i = data.size(); i > 0; --i) {
        const bool line_end = data[i - 1] == '\n';
        if (line_end && !at_end && --lines <= 0) {
          return segment->base + begin + static_cast<int64_t>(i);
        }
        at_end = false;
      }
      end = begin;
    }
  }
  return oldest;
}

int64_t LogFiles::LineFrom(int64_t offset) const {
  if (offset == 0) return 0;
  const absl::StatusOr<Chunk> before = Read(offset - 1);
  if (!before.ok() || before->offset != offset - 1) return offset;
  const size_t line_end = before->data.find('\n');
  return line_end == std::string::npos ? offset : offset + static_cast<int64_t>(line_end);
}

absl::StatusOr<LogFiles::End> LogFiles::FindEnd() const {
  PACELINE_ASSIGN_OR_RETURN(const Log log, OpenWholeLog(dir_));
  const Segment& last = log.segments.back();
  PACELINE_ASSIGN_OR_RETURN(const ForeignFile file, log.dir.OpenFile(last.name));
  return End{last.base + SizeOf(file), absl::TimeFromTimespec(file.info().st_mtim)};
}

std::string LogFiles::Tail(int lines, size_t bytes) const {
  const absl::StatusOr<int64_t> from = TailOffset(lines);
  if (!from.ok()) return "";
  const absl::StatusOr<End> end = FindEnd();
  if (!end.ok()) return "";
  std::string tail;
  // Read more than `bytes`: most of it may be a progress bar that overwrites itself.
  const size_t most = bytes + kMaxChunk;
  for (int64_t at = std::max(*from, end->offset - static_cast<int64_t>(most)); at < end->offset;) {
    const absl::StatusOr<Chunk> chunk = Read(at);
    if (!chunk.ok() || chunk->data.empty()) break;
    tail += chunk->data;
    if (tail.size() > most) tail.erase(0, tail.size() - most);
    at = chunk->offset + static_cast<int64_t>(chunk->data.size());
  }
  std::vector<absl::string_view> shown = absl::StrSplit(tail, '\n');
  for (absl::string_view& line : shown) line = LastWritten(line);
  tail = absl::StrJoin(shown, "\n");
  if (tail.size() > bytes) tail.erase(0, tail.size() - bytes);
  return ToUtf8(std::move(tail));
}

void LogFiles::DeleteOldest(size_t kept, int64_t segment_bytes) const {
  const absl::StatusOr<Log> log = OpenLog(dir_);
  if (!log.ok()) return;
  const std::vector<Segment>& segments = log->segments;
  kept = std::max<size_t>(1, kept);
  size_t at = 0;
  // A segment that cannot be removed only harms its owner.
  for (; at + kept < segments.size(); ++at) log->dir.Remove(segments[at].name).IgnoreError();
  int64_t left = 0;
  if (__builtin_mul_overflow(kSlack * static_cast<int64_t>(kept), segment_bytes, &left)) return;
  for (size_t i = segments.size(); i > at; --i) {
    const absl::StatusOr<ForeignFile> file =
        log->dir.OpenFile(segments[i - 1].name, /*writable=*/true);
    if (!file.ok()) continue;
    const int64_t size = SizeOf(*file);
    if (size > left) CutBefore(*file, size - left);
    left = std::max<int64_t>(0, left - size);
  }
}

std::string ToUtf8(std::string text) {
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceAt(text, i);
    if (length == 0) text[i] = '?';
    i += std::max<size_t>(1, length);
  }
  return text;
}

}  // namespace paceline
