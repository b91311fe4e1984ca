// Reads the lines of a trace cell by cell, finds the columns by their names, and reports problems
// with their positions (trace.h has the format).
#ifndef BENCH_STRAGGLERS_TRACE_TABLE_H_
#define BENCH_STRAGGLERS_TRACE_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bench/stragglers/csv_cells.h"

namespace paceline::detect {

enum Column : size_t {
  kStep,
  kDp,
  kStage,
  kForward,
  kBackward,
  kWall,
  kDataWait,
  kWorkload,
  kNode,
  kMasked,
  kGeneration,
};
inline constexpr std::array<const char*, 11> kColumnNames = {
    "step",        "dp",       "stage", "fwd_s",  "bwd_s",     "wall_s",
    "data_wait_s", "workload", "node",  "masked", "generation"};
inline constexpr size_t kRequiredColumns = kDataWait;  // The first ones.

// A text from a file, quoted for a message.
std::string Quoted(absl::string_view text);

// Thread-compatible.
class TraceTable {
 public:
  // `csv` outlives the table.
  explicit TraceTable(std::istream& csv) : csv_(csv) {}

  // Goes to the next row. False: there is none, or there are too many problems.
  bool Next();

  // Values of the row. Cells that do not fit their type are reported as problems and read as 0 or
  // false.
  int64_t line() const { return line_; }
  absl::string_view Cell(Column column) const;  // Empty if there is none.
  bool IsKnown(Column column) const;  // Not if empty, NA, NaN or null, or there is no such column.
  std::optional<double> Parse(Column column);
  double Number(Column column);  // NaN: not known; counted if the column exists.
  int64_t Whole(Column column, double low, double high);
  bool YesOrNo(Column column);

  void Problem(Column column, absl::string_view what);
  void Problem(absl::string_view what);
  const std::vector<std::string>& problems() const { return problems_; }

  // Facts known so far.
  bool Has(Column column) const { return has_[column]; }
  int64_t unknown(Column column) const { return unknown_[column]; }
  const std::vector<std::string>& passed_over() const { return passed_over_; }  // Columns.
  bool cut_off() const { return cut_off_; }  // The last line was no whole row.

 private:
  enum class Kind { kNothing, kHead, kRow };

  Kind Take(absl::string_view text, bool last);
  bool MayBeHead() const;
  bool IsHead() const;
  void ReadHead();
  void PassOver(absl::string_view name);
  bool HasWidth(bool last);

  std::istream& csv_;
  std::string text_;
  int64_t line_ = 0;
  std::vector<std::string> problems_;
  bool headless_ = false;
  char separator_ = ',';
  CsvCells cells_;
  std::array<size_t, kColumnNames.size()> cell_of_ = {};
  size_t width_ = 0;        // Cells of the head; 0: there was none yet.
  size_t least_width_ = 0;  // Without unnamed cells at the end.
  std::array<bool, kColumnNames.size()> has_ = {};
  std::array<int64_t, kColumnNames.size()> unknown_ = {};
  std::vector<std::string> passed_over_;
  bool cut_off_ = false;
};

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_TRACE_TABLE_H_
