// Remembers what a view has shown, so that a long reason is shown in full only once.
//
// Thread-compatible.
#ifndef CLI_TEXT_TOLD_ONCE_H_
#define CLI_TEXT_TOLD_ONCE_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/text/sanitize.h"
#include "cli/text/utf8.h"

namespace paceline {

class ToldOnce {
 public:
  // Returns `text`, which counts as shown from now on. If `kLong` or more consecutive bytes of it
  // were shown before, those are cut to `kShort` columns.
  std::string Tell(absl::string_view text) {
    // Each stretch of that length contains a window that begins at a multiple of the window's size.
    for (size_t i = 0; i + kWindow <= text.size(); i += kWindow) {
      size_t begin = i;
      size_t at = told_.find(text.data() + i, 0, kWindow);
      if (at == std::string::npos) continue;
      size_t end = i + kWindow;
      size_t told_end = at + kWindow;
      for (; begin > 0 && at > 0 && text[begin - 1] == told_[at - 1]; --begin) --at;
      for (; end < text.size() && text[end] == told_[told_end]; ++end) ++told_end;
      while (begin < end && IsContinuation(text[begin])) ++begin;
      while (end > begin && end < text.size() && IsContinuation(text[end])) --end;
      if (end - begin < kLong) continue;
      return absl::StrCat(text.substr(0, begin), Shortened(text.substr(begin, end - begin), kShort),
                          text.substr(end));
    }
    absl::StrAppend(&told_, text, "\n");
    if (told_.size() > kMost) told_.erase(0, told_.size() - kMost);
    return std::string(text);
  }

 private:
  static constexpr size_t kLong = 80;
  static constexpr size_t kWindow = kLong / 2;
  static constexpr int kShort = 40;
  static constexpr size_t kMost = 1 << 13;  // Bytes to remember.

  std::string told_;  // The texts, each with a newline.
};

// The same; a null `told` leaves the text whole.
inline std::string TellOnce(ToldOnce* told, const std::string& text) {
  return told == nullptr ? text : told->Tell(text);
}

}  // namespace paceline

#endif  // CLI_TEXT_TOLD_ONCE_H_
