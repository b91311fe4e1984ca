// Whatever a log contains, a terminal shows it and never executes it.
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "cli/text/sanitize.h"
#include "cli/verbs/job/rank_log.h"
#include "common/core/last_written.h"
#include "tests/fuzz/expect.h"

namespace paceline {
namespace {

constexpr size_t kLongestLine = 64 << 10;

void CheckLine(const std::string& line) {
  const std::string safe = SanitizeLine(line);
  for (const char c : safe) {
    PACELINE_EXPECT(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  }
  PACELINE_EXPECT(SanitizeLine(safe) == safe);
  for (const int width : {0, 1, 5, 6, 80}) {
    const std::string shortened = Shortened(safe, width);
    PACELINE_EXPECT(DisplayWidth(shortened) <= width);
    PACELINE_EXPECT(SanitizeLine(shortened) == shortened);
  }
}

void Read(absl::string_view log) {
  const std::string safe = Sanitize(log);
  PACELINE_EXPECT(safe.size() <= 4 * log.size());
  PACELINE_EXPECT(Sanitize(safe) == safe);

  // The lines are the same whatever the size of the parts, and none is lost.
  const size_t part = log.empty() ? 1 : 1 + static_cast<unsigned char>(log[0]);
  LineSplitter splitter;
  std::string together;
  for (size_t at = 0; at < log.size(); at += part) {
    for (const std::string& line : splitter.Add(log.substr(at, part))) {
      CheckLine(line);
      together += line + "\n";
    }
  }
  const std::string rest = splitter.Rest();
  CheckLine(rest);
  // Of an overwritten line the last version counts. A line that is too long is cut, which adds a
  // newline.
  std::string expected;
  for (const absl::string_view line : absl::StrSplit(log, '\n')) {
    absl::StrAppend(&expected, expected.empty() && line.data() == log.data() ? "" : "\n",
                    LastWritten(line));
  }
  if (log.size() < kLongestLine) PACELINE_EXPECT(together + rest == expected);
}

}  // namespace
}  // namespace paceline

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  paceline::Read({reinterpret_cast<const char*>(data), size});
  return 0;
}
