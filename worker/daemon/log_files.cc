#include "worker/daemon/log_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "worker/shim/small_file.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kNameDigits = 20;
// A segment may be deleted between being listed and being opened.
constexpr int kAttempts = 3;

struct Segment {
  int64_t base = 0;
  std::string path;
};

// By base.
std::vector<Segment> ListSegments(const std::string& dir) {
  std::vector<Segment> segments;
  std::error_code error;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string stem = entry->path().stem().string();
    Segment segment;
    segment.path = entry->path().string();
    if (entry->path().extension() == ".log" && stem.size() == kNameDigits &&
        absl::SimpleAtoi(stem, &segment.base) && segment.base >= 0 &&
        segment.base <= LogFiles::kMaxOffset) {
      segments.push_back(std::move(segment));
    }
  }
  std::sort(segments.begin(), segments.end(),
            [](const Segment& a, const Segment& b) { return a.base < b.base; });
  return segments;
}

// Up to `size` bytes from `offset` within the segment; what it has.
absl::StatusOr<std::string> ReadSegment(const Segment& segment, int64_t offset, size_t size) {
  const int fd = OpenForeignFile(segment.path);
  if (fd < 0) return absl::ErrnoToStatus(-fd, absl::StrCat("cannot open ", segment.path));
  std::string data(size, '\0');
  const ssize_t got = ::pread(fd, data.data(), size, offset);
  const int error = errno;
  ::close(fd);
  if (got < 0) return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", segment.path));
  data.resize(static_cast<size_t>(got));
  return data;
}

int64_t SizeOf(const Segment& segment) {
  struct stat file = {};
  return ::lstat(segment.path.c_str(), &file) == 0 && S_ISREG(file.st_mode)
             ? std::min<int64_t>(file.st_size, LogFiles::kMaxOffset)
             : 0;
}

// Length of the valid UTF-8 sequence at `at`, 0 if there is none.
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
    const std::vector<Segment> segments = ListSegments(dir_);
    if (segments.empty()) return absl::NotFoundError(absl::StrCat("no log in ", dir_));
    Chunk chunk;
    chunk.offset = std::max(offset, segments.front().base);
    auto segment =
        std::upper_bound(segments.begin(), segments.end(), chunk.offset,
                         [](int64_t at, const Segment& candidate) { return at < candidate.base; });
    --segment;
    auto data = ReadSegment(*segment, chunk.offset - segment->base, kMaxChunk);
    if (data.ok() && data->empty() && segment + 1 != segments.end()) {
      // Bytes are missing before the next segment: begin with that one.
      ++segment;
      chunk.offset = segment->base;
      data = ReadSegment(*segment, 0, kMaxChunk);
    }
    if (data.ok()) {
      chunk.data = *std::move(data);
      return chunk;
    }
    failure = data.status();
    if (!absl::IsNotFound(failure)) break;
  }
  return failure;
}

absl::StatusOr<int64_t> LogFiles::TailOffset(int lines) const {
  const std::vector<Segment> segments = ListSegments(dir_);
  if (segments.empty()) return absl::NotFoundError(absl::StrCat("no log in ", dir_));
  bool at_end = true;  // The line end that closes the last line begins none.
  int64_t left = kMaxLookBack;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    for (int64_t end = SizeOf(*segment); end > 0;) {
      if (left <= 0) return segment->base + end;
      const int64_t begin = std::max<int64_t>(0, end - static_cast<int64_t>(kMaxChunk));
      left -= end - begin;
      PACELINE_ASSIGN_OR_RETURN(const std::string data,
                                ReadSegment(*segment, begin, static_cast<size_t>(end - begin)));
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
  return segments.front().base;
}

int64_t LogFiles::LineFrom(int64_t offset) const {
  if (offset == 0) return 0;
  const absl::StatusOr<Chunk> before = Read(offset - 1);
  if (!before.ok() || before->offset != offset - 1) return offset;
  const size_t line_end = before->data.find('\n');
  return line_end == std::string::npos ? offset : offset + static_cast<int64_t>(line_end);
}

absl::StatusOr<LogFiles::End> LogFiles::FindEnd() const {
  const std::vector<Segment> segments = ListSegments(dir_);
  if (segments.empty()) return absl::NotFoundError(absl::StrCat("no log in ", dir_));
  const Segment& last = segments.back();
  struct stat file = {};
  if (::lstat(last.path.c_str(), &file) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot look at ", last.path));
  }
  return End{last.base + SizeOf(last), absl::TimeFromTimespec(file.st_mtim)};
}

std::string LogFiles::Tail(int lines, size_t bytes) const {
  const absl::StatusOr<int64_t> from = TailOffset(lines);
  if (!from.ok()) return "";
  const absl::StatusOr<End> end = FindEnd();
  if (!end.ok()) return "";
  std::string tail;
  for (int64_t at = std::max(*from, end->offset - static_cast<int64_t>(bytes)); at < end->offset;) {
    const absl::StatusOr<Chunk> chunk = Read(at);
    if (!chunk.ok() || chunk->data.empty()) break;
    tail += chunk->data;
    if (tail.size() > bytes) tail.erase(0, tail.size() - bytes);
    at = chunk->offset + static_cast<int64_t>(chunk->data.size());
  }
  return ToUtf8(std::move(tail));
}

void LogFiles::DeleteOldest(size_t kept) const {
  const std::vector<Segment> segments = ListSegments(dir_);
  for (size_t i = 0; i + std::max<size_t>(1, kept) < segments.size(); ++i) {
    ::unlink(segments[i].path.c_str());
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
