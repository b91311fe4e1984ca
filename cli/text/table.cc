#include "cli/text/table.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "cli/text/neutral.h"

namespace paceline {
namespace {

constexpr int kGap = 2;
constexpr int kLeastLastColumn = 8;

}  // namespace

void Table::Add(std::vector<Cell> row) {
  for (Cell& cell : row) cell.text = cell.text.empty() ? "-" : NeutralLine(cell.text);
  rows_.push_back(std::move(row));
}

std::vector<int> Table::Widths() const {
  std::vector<int> widths;
  for (size_t i = 0; i < columns_.size(); ++i) {
    int width = DisplayWidth(columns_[i].heading);
    for (const auto& row : rows_) width = std::max(width, DisplayWidth(row[i].text));
    widths.push_back(width);
  }
  return widths;
}

std::string Table::Rendered(int width, bool colours) const {
  const std::vector<int> widths = Widths();
  const size_t last = columns_.size() - 1;
  int room = widths[last];
  if (width > 0) {
    int before = 0;
    for (size_t i = 0; i < last; ++i) before += widths[i] + kGap;
    room = std::min(room, std::max(kLeastLastColumn, width - before));
  }
  std::string out;
  const auto add_line = [&](const std::vector<Cell>& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string text = i == last ? Shortened(row[i].text, room) : row[i].text;
      const int column = i == last ? room : widths[i];
      const std::string pad(std::max(0, column - DisplayWidth(text)), ' ');
      const std::string painted = Painted(text, row[i].colour, colours);
      if (columns_[i].right) {
        absl::StrAppend(&out, pad, painted);
      } else {
        absl::StrAppend(&out, painted, i == last ? "" : pad);
      }
      if (i != last) out.append(kGap, ' ');
    }
    out += '\n';
  };
  std::vector<Cell> headings;
  for (const Column& column : columns_) headings.emplace_back(column.heading, Colour::kBold);
  add_line(headings);
  for (const auto& row : rows_) add_line(row);
  return out;
}

}  // namespace paceline
