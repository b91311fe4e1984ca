// A table for people: a line of headings and aligned columns, two spaces apart.
//
// Cells are sanitized (cli/text/sanitize.h), so they may hold text from elsewhere.
// Thread-compatible.
#ifndef CLI_TEXT_TABLE_H_
#define CLI_TEXT_TABLE_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/text/style.h"

namespace paceline {

class Table {
 public:
  struct Column {
    std::string heading;
    bool right = false;  // Numbers are aligned to the right.
    bool spare = false;  // May be left out if lines are too long.
  };

  struct Cell {
    Cell(std::string t, Colour c = Colour::kNone) : text(std::move(t)), colour(c) {}  // NOLINT
    Cell(const char* t) : text(t) {}                                                  // NOLINT

    std::string text;  // Empty: shown as "-".
    Colour colour = Colour::kNone;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Requires: one cell per column.
  void Add(std::vector<Cell> row);

  // Returns all lines, each ending in a newline. With `width` > 0, lines are made to fit: spare
  // columns are left out, the rightmost first, and then the last column is shortened. Other columns
  // are never cut.
  std::string Rendered(int width, bool colours, bool headings = true) const;

 private:
  std::vector<int> Widths() const;
  // Indices of the columns that fit in lines of `width`.
  std::vector<size_t> Shown(const std::vector<int>& widths, int width) const;

  const std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace paceline

#endif  // CLI_TEXT_TABLE_H_
