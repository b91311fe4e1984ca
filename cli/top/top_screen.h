// The screen of `paceline top` as lines of text: a pure function of what was fetched, what was
// selected by keys, and the size of the terminal.
#ifndef CLI_TOP_TOP_SCREEN_H_
#define CLI_TOP_TOP_SCREEN_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/top/top_model.h"
#include "cli/top/top_view.h"

namespace paceline {

struct TopStyle {
  int width = 80;   // Columns; 0: unlimited.
  int height = 24;  // Lines; 0: unlimited.
  bool colours = false;
  bool utf8 = false;         // Else all output is ASCII.
  bool interactive = false;  // Keys are read: show the cursor and a line about keys.
};

// At most `height` lines of at most `width` columns, without newlines. Ages are relative to `now`.
std::vector<std::string> TopLines(const TopModel& model, const TopView& view, const TopStyle& style,
                                  absl::Time now);

// Number of rows of jobs or ranks on such a screen.
int TopPage(const TopStyle& style);

// Cuts `line` to `width` columns and ends its colours. Unless `utf8`, makes it ASCII.
std::string FitLine(const std::string& line, int width, bool utf8);

}  // namespace paceline

#endif  // CLI_TOP_TOP_SCREEN_H_
