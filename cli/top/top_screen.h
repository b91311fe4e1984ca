// The screen of `paceline top` as lines of text: a pure function of what was fetched, what the keys
// have chosen, and the room that there is.
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
  bool utf8 = false;         // Else everything is ASCII.
  bool interactive = false;  // Keys are read: the cursor is shown, and a line about keys.
};

// At most `height` lines of at most `width` columns, without newlines. `now` tells ages.
std::vector<std::string> TopLines(const TopModel& model, const TopView& view, const TopStyle& style,
                                  absl::Time now);

// Rows of jobs or ranks that such a screen shows.
int TopPage(const TopStyle& style);

// `line` cut to `width` columns, colours ended. Other than ASCII is replaced unless `utf8`.
std::string FitLine(const std::string& line, int width, bool utf8);

}  // namespace paceline

#endif  // CLI_TOP_TOP_SCREEN_H_
