// Pages about one thing: lines with a label and a value, and blocks of text below them.
#ifndef CLI_VIEW_PAGE_H_
#define CLI_VIEW_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace paceline {

struct PageStyle {
  int width = 0;  // Columns; 0: unlimited.
  bool colours = false;
  bool wide = false;     // More columns in tables.
  bool headings = true;  // Headings of tables.
};

// Adds "Label:      value", or nothing if the value is empty. The value is not sanitized.
void AddLine(std::string* page, absl::string_view label, absl::string_view value);

// Each line of `text`, sanitized, after `margin`.
std::string Indented(absl::string_view text, absl::string_view margin);

}  // namespace paceline

#endif  // CLI_VIEW_PAGE_H_
