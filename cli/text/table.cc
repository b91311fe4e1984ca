#include "cli/text/table.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "cli/text/sanitize.h"

namespace paceline {
namespace {

constexpr int kGap = 2;
constexpr int kLeastLastColumn = 8;
constexpr int kGoodLastColumn = 20;

}  // namespace

void Table::Add(std::vector<Cell> row) {
  for (Cell& cell : row) cell.text = cell.text.empty() ? "-" : SanitizeLine(cell.text);
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

std::vector<size_t> Table::Shown(const std::vector<int>& widths, int width) const {
  int whole = std::min(widths.back(), kGoodLastColumn);
  for (size_t i = 0; i + 1 < widths.size(); ++i) whole += widths[i] + kGap;
  std::vector<size_t> shown;
  for (size_t i = columns_.size(); i-- > 0;) {
    if (columns_[i].spare && width > 0 && whole > width) {
      whole -= widths[i] + kGap;
    } else {
      shown.insert(shown.begin(), i);
    }
  }
  return shown;
}

std::string Table::Rendered(int width, bool colours, bool headings) const {
  const std::vector<int> widths = Widths();
  const std::vector<size_t> shown = Shown(widths, width);
  const size_t last = columns_.size() - 1;
  int room = widths[last];
  if (width > 0) {
    int before = 0;
    for (const size_t i : shown) before += i == last ? 0 : widths[i] + kGap;
    room = std::min(room, std::max(kLeastLastColumn, width - before));
  }
  std::string out;
  const auto add_line = [&](const std::vector<Cell>& row) {
    for (const size_t i : shown) {
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
  if (headings) {
    std::vector<Cell> line;
    for (const Column& column : columns_) line.emplace_back(column.heading, Colour::kBold);
    add_line(line);
  }
  for (const auto& row : rows_) add_line(row);
  return out;
}

}  // namespace paceline
