// The cells of a line of CSV, as spreadsheets, pandas, R and awk write it.
#ifndef BENCH_STRAGGLERS_CSV_CELLS_H_
#define BENCH_STRAGGLERS_CSV_CELLS_H_

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace paceline::detect {

// The most frequent one of comma, semicolon and tab outside of quotes; if there is none, a comma.
char SeparatorOf(absl::string_view line);

// Thread-compatible.
class CsvCells {
 public:
  // False if a quote is not closed, or text follows one.
  bool Cut(absl::string_view line, char separator);

  // Cells of the last Cut, without surrounding spaces and quotes. Valid as long as its line, and
  // until the next Cut.
  const std::vector<absl::string_view>& cells() const { return cells_; }

 private:
  std::vector<absl::string_view> cells_;
  std::deque<std::string> unquoted_;  // Cells that had quotes within.
};

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_CSV_CELLS_H_
