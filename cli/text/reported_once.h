// Remembers what a view has shown, so that a long reason is shown in full only once.
//
// Thread-compatible.
#ifndef CLI_TEXT_REPORTED_ONCE_H_
#define CLI_TEXT_REPORTED_ONCE_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/text/sanitize.h"
#include "cli/text/utf8.h"

namespace paceline {

class ReportedOnce {
 public:
  // Returns `text`, which counts as shown from now on. If `kLong` or more consecutive bytes of it
  // were shown before, those are cut to `kShort` columns.
  std::string Tell(absl::string_view text) {
    // Each stretch of that length contains a window that begins at a multiple of the window's size.
    for (size_t i = 0; i + kWindow <= text.size(); i += kWindow) {
      size_t begin = i;
      size_t at = reported_.find(text.data() + i, 0, kWindow);
      if (at == std::string::npos) continue;
      size_t end = i + kWindow;
      size_t reported_end = at + kWindow;
      for (; begin > 0 && at > 0 && text[begin - 1] == reported_[at - 1]; --begin) --at;
      for (; end < text.size() && text[end] == reported_[reported_end]; ++end) ++reported_end;
      while (begin < end && IsContinuation(text[begin])) ++begin;
      while (end > begin && end < text.size() && IsContinuation(text[end])) --end;
      if (end - begin < kLong) continue;
      return absl::StrCat(text.substr(0, begin), Shortened(text.substr(begin, end - begin), kShort),
                          text.substr(end));
    }
    absl::StrAppend(&reported_, text, "\n");
    if (reported_.size() > kMost) reported_.erase(0, reported_.size() - kMost);
    return std::string(text);
  }

 private:
  static constexpr size_t kLong = 80;
  static constexpr size_t kWindow = kLong / 2;
  static constexpr int kShort = 40;
  static constexpr size_t kMost = 1 << 13;  // Bytes to remember.

  std::string reported_;  // The texts, each with a newline.
};

// The same; a null `reported` leaves the text whole.
inline std::string TellOnce(ReportedOnce* reported, const std::string& text) {
  return reported == nullptr ? text : reported->Tell(text);
}

}  // namespace paceline

#endif  // CLI_TEXT_REPORTED_ONCE_H_
