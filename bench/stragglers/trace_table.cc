#include "bench/stragglers/trace_table.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace paceline::detect {
namespace {

constexpr size_t kProblemsReported = 10;
constexpr size_t kNoCell = std::numeric_limits<size_t>::max();

bool IsOneOf(absl::string_view text, std::initializer_list<absl::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](absl::string_view word) { return absl::EqualsIgnoreCase(text, word); });
}

bool IsUnknown(absl::string_view cell) {
  return cell.empty() || (!absl::ascii_isdigit(cell[0]) &&
                          IsOneOf(cell, {"na", "nan", "-nan", "null", "none", "n/a", "<na>"}));
}

// The type of a file that is not text; empty if it seems to be text.
absl::string_view Disguise(absl::string_view beginning) {
  if (absl::StartsWith(beginning, "\x1f\x8b")) return "gzip: unpack it first";
  if (absl::StartsWith(beginning, "PK\x03\x04")) return "zip: unpack it first";
  if (absl::StartsWith(beginning, "\x28\xb5\x2f\xfd")) return "zstd: unpack it first";
  if (absl::StartsWith(beginning, "PAR1")) return "Parquet: write it as CSV";
  if (absl::StartsWith(beginning, "\xff\xfe") || absl::StartsWith(beginning, "\xfe\xff")) {
    return "UTF-16: write it as UTF-8";
  }
  return beginning.find('\0') != absl::string_view::npos ? "no text" : "";
}

}  // namespace

std::string Quoted(absl::string_view text) {
  constexpr size_t kMostReported = 32;
  return absl::StrCat("\"", absl::CEscape(text.substr(0, kMostReported)),
                      text.size() > kMostReported ? "…" : "", "\"");
}

bool TraceTable::Next() {
  while (problems_.size() < kProblemsReported && !headless_ && std::getline(csv_, text_)) {
    ++line_;
    if (Take(text_, csv_.eof()) == Kind::kRow) return true;
  }
  if (line_ == 0) problems_.emplace_back("is empty");
  return false;
}

TraceTable::Kind TraceTable::Take(absl::string_view text, bool last) {
  absl::ConsumePrefix(&text, "\xef\xbb\xbf");
  if (const absl::string_view disguise = Disguise(text); line_ == 1 && !disguise.empty()) {
    headless_ = true;
    Problem(absl::StrCat("this is ", disguise));
    return Kind::kNothing;
  }
  const absl::string_view stripped = absl::StripAsciiWhitespace(text);
  if (stripped.empty()) return Kind::kNothing;
  const bool comment = stripped.front() == '#';
  if (comment) {
    if (width_ > 0) return Kind::kNothing;
    text = stripped.substr(1);  // Some writers put the head there.
  }
  if (width_ == 0) separator_ = SeparatorOf(text);
  if (!cells_.Cut(text, separator_)) {
    if (!comment) Problem("a quote is not closed, or text follows it");
    return Kind::kNothing;
  }
  if (width_ == 0 ? !comment || IsHead() : MayBeHead() && IsHead()) {
    ReadHead();
    return Kind::kHead;
  }
  return !comment && HasWidth(last) ? Kind::kRow : Kind::kNothing;
}

bool TraceTable::MayBeHead() const {
  const absl::string_view cell = Cell(kStep);
  return cell.empty() || absl::ascii_isalpha(cell.front());
}

bool TraceTable::IsHead() const {
  return std::all_of(
      kColumnNames.begin(), kColumnNames.begin() + kRequiredColumns, [&](const char* name) {
        return std::any_of(
            cells_.cells().begin(), cells_.cells().end(),
            [&](absl::string_view cell) { return absl::EqualsIgnoreCase(cell, name); });
      });
}

void TraceTable::ReadHead() {
  cell_of_.fill(kNoCell);
  width_ = least_width_ = 0;
  for (const absl::string_view cell : cells_.cells()) {
    const auto* const name =
        std::find_if(kColumnNames.begin(), kColumnNames.end(),
                     [&](const char* known) { return absl::EqualsIgnoreCase(cell, known); });
    if (name == kColumnNames.end()) {
      if (!cell.empty()) PassOver(cell);
    } else {
      const auto column = static_cast<Column>(name - kColumnNames.begin());
      if (cell_of_[column] != kNoCell) Problem(column, "is there twice");
      cell_of_[column] = width_;
      has_[column] = true;
    }
    ++width_;
    if (!cell.empty()) least_width_ = width_;
  }
  std::vector<std::string> missing;
  for (size_t column = 0; column < kRequiredColumns; ++column) {
    if (cell_of_[column] == kNoCell) missing.emplace_back(kColumnNames[column]);
  }
  if (!missing.empty()) {
    Problem(absl::StrCat("the head of the table lacks ", absl::StrJoin(missing, ", "), "; it is ",
                         Quoted(absl::StrJoin(cells_.cells(), ","))));
  }
  headless_ = !problems_.empty();
}

void TraceTable::PassOver(absl::string_view name) {
  if (std::find(passed_over_.begin(), passed_over_.end(), name) == passed_over_.end()) {
    passed_over_.emplace_back(name);
  }
}

bool TraceTable::HasWidth(bool last) {
  const std::vector<absl::string_view>& cells = cells_.cells();
  const size_t beyond = std::min(width_, cells.size());
  const bool too_many = std::any_of(cells.begin() + static_cast<std::ptrdiff_t>(beyond),
                                    cells.end(), [](auto cell) { return !cell.empty(); });
  if (cells.size() >= least_width_ && !too_many) return true;
  cut_off_ = last && !too_many;
  if (!cut_off_) {
    Problem(absl::StrFormat("%d cells, but the head has %d", cells.size(), least_width_));
  }
  return false;
}

absl::string_view TraceTable::Cell(Column column) const {
  const size_t index = cell_of_[column];
  return index < cells_.cells().size() ? cells_.cells()[index] : absl::string_view();
}

bool TraceTable::IsKnown(Column column) const { return !IsUnknown(Cell(column)); }

std::optional<double> TraceTable::Parse(Column column) {
  absl::string_view cell = Cell(column);
  std::string with_point;  // For numbers with a decimal comma.
  if (separator_ != ',' && cell.find(',') != absl::string_view::npos) {
    cell = with_point = absl::StrReplaceAll(cell, {{",", "."}});
  }
  double value = 0;
  if (absl::SimpleAtod(cell, &value)) return value;
  Problem(column, absl::StrCat(Quoted(Cell(column)), " is no number"));
  return std::nullopt;
}

double TraceTable::Number(Column column) {
  if (IsKnown(column)) return Parse(column).value_or(0);
  if (cell_of_[column] != kNoCell) ++unknown_[column];
  return std::numeric_limits<double>::quiet_NaN();
}

int64_t TraceTable::Whole(Column column, double low, double high) {
  const std::optional<double> value = Parse(column);
  if (!value.has_value()) return 0;
  if (*value >= low && *value <= high && *value == std::floor(*value)) {
    return static_cast<int64_t>(*value);
  }
  Problem(column, absl::StrFormat("%s is no whole number from %.0f to %.0f", Quoted(Cell(column)),
                                  low, high));
  return 0;
}

bool TraceTable::YesOrNo(Column column) {
  const absl::string_view cell = Cell(column);
  if (IsOneOf(cell, {"1", "1.0", "true", "t", "yes", "y"})) return true;
  if (IsKnown(column) && !IsOneOf(cell, {"0", "0.0", "false", "f", "no", "n"})) {
    Problem(column, absl::StrCat(Quoted(cell), " is neither 0 nor 1"));
  }
  return false;
}

void TraceTable::Problem(absl::string_view what) {
  problems_.push_back(absl::StrFormat("line %d: %s", line_, what));
}

void TraceTable::Problem(Column column, absl::string_view what) {
  problems_.push_back(absl::StrFormat("line %d, column %s: %s", line_, kColumnNames[column], what));
}

}  // namespace paceline::detect
