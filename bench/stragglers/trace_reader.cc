#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/stragglers/trace.h"

namespace paceline::detect {
namespace {

constexpr size_t kProblemsTold = 10;
constexpr double kLargestWhole = 9e15;  // A double still counts in ones.
const std::vector<std::string>& Required() {
  static const auto& names =
      *new std::vector<std::string>{"step", "dp", "stage", "fwd_s", "bwd_s", "wall_s"};
  return names;
}

class Reader {
 public:
  absl::StatusOr<Trace> Read(std::istream& csv) {
    std::string line;
    while (std::getline(csv, line) && problems_.size() < kProblemsTold) {
      ++line_;
      if (line_ == 1 && line.rfind("\xef\xbb\xbf", 0) == 0) line.erase(0, 3);
      const absl::string_view text = absl::StripAsciiWhitespace(line);
      if (text.empty() || text.front() == '#') continue;
      if (columns_.empty()) {
        ReadHead(text);
        if (!problems_.empty()) break;
      } else {
        ReadRow(text);
      }
    }
    if (problems_.empty() && rows_.empty()) problems_.push_back("no row of data");
    if (!problems_.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems_, "\n"));
    return Arrange();
  }

 private:
  struct Row {
    int dp = 0;
    int stage = 0;
    TraceRow row;
  };
  struct Seen {  // A worker, when it was first named.
    std::string node;
    int64_t line = 0;
    int rank = 0;
  };

  void Problem(absl::string_view column, absl::string_view what) {
    problems_.push_back(column.empty()
                            ? absl::StrFormat("line %d: %s", line_, what)
                            : absl::StrFormat("line %d, column %s: %s", line_, column, what));
  }

  void ReadHead(absl::string_view text) {
    size_t index = 0;
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      const std::string name(absl::StripAsciiWhitespace(part));
      if (!columns_.emplace(name, index++).second) Problem(name, "is there twice");
    }
    width_ = index;
    for (const std::string& name : Required()) {
      if (columns_.count(name) == 0) Problem(name, "is missing in the head of the table");
    }
  }

  void ReadRow(absl::string_view text) {
    cells_ = absl::StrSplit(text, ',');
    if (cells_.size() != width_) {
      Problem("", absl::StrFormat("%d cells, but the head has %d", cells_.size(), width_));
      return;
    }
    const size_t problems_before = problems_.size();
    Row row;
    StepSample& sample = row.row.sample;
    sample.step = Whole("step", -kLargestWhole, kLargestWhole);
    row.dp = static_cast<int>(Whole("dp", 0, 1e9));
    row.stage = static_cast<int>(Whole("stage", 0, 1e9));
    sample.forward_s = Number("fwd_s");
    sample.backward_s = Number("bwd_s");
    sample.wall_s = Number("wall_s");
    sample.data_wait_s = Number("data_wait_s");
    sample.workload = Number("workload");
    sample.masked = Whole("masked", 0, 1) != 0;
    row.row.generation = Whole("generation", 0, kLargestWhole);
    if (problems_.size() > problems_before) return;

    const std::string node(Cell("node").value_or(""));
    const auto [worker, is_new] =
        workers_.emplace(std::pair(row.stage, row.dp), Seen{node, line_, 0});
    if (!is_new && worker->second.node != node) {
      Problem("node",
              absl::StrFormat("worker dp %d, stage %d is on \"%s\", in line %d on \"%s\"", row.dp,
                              row.stage, node, worker->second.line, worker->second.node));
    }
    rows_.push_back(row);
  }

  // Nothing if there is no such column.
  std::optional<absl::string_view> Cell(const std::string& column) const {
    const auto found = columns_.find(column);
    if (found == columns_.end()) return std::nullopt;
    return absl::StripAsciiWhitespace(cells_[found->second]);
  }

  // 0 for an optional column that is absent or empty.
  double Number(const std::string& column) {
    const std::optional<absl::string_view> cell = Cell(column);
    if (!cell.has_value()) return 0;
    const bool required =
        std::find(Required().begin(), Required().end(), column) != Required().end();
    if (cell->empty() && !required) return 0;
    double value = 0;
    if (!absl::SimpleAtod(*cell, &value)) {
      Problem(column, absl::StrCat("\"", *cell, "\" is no number"));
    }
    return value;
  }

  int64_t Whole(const std::string& column, double low, double high) {
    const size_t problems_before = problems_.size();
    const double value = Number(column);
    if (problems_.size() > problems_before) return 0;
    if (value >= low && value <= high && value == std::floor(value)) {
      return static_cast<int64_t>(value);
    }
    Problem(column, absl::StrFormat("\"%s\" is no whole number from %.0f to %.0f", *Cell(column),
                                    low, high));
    return 0;
  }

  Trace Arrange() {
    Trace trace;
    const bool names_nodes = columns_.count("node") > 0;
    std::map<std::string, int> nodes;
    for (auto& [key, seen] : workers_) {
      seen.rank = static_cast<int>(trace.workers.size());
      trace.workers.push_back({key.second, key.first, seen.node});
      if (trace.stages.empty() || trace.stages.back() != key.first) {
        trace.stages.push_back(key.first);
      }
      const int node = names_nodes
                           ? nodes.emplace(seen.node, static_cast<int>(nodes.size())).first->second
                           : seen.rank;
      trace.ranks.push_back({node, static_cast<int>(trace.stages.size()) - 1});
    }
    for (Row& row : rows_) {
      row.row.sample.rank = workers_.at({row.stage, row.dp}).rank;
      trace.rows.push_back(row.row);
    }
    std::stable_sort(trace.rows.begin(), trace.rows.end(), [](const auto& a, const auto& b) {
      return std::pair(a.generation, a.sample.step) < std::pair(b.generation, b.sample.step);
    });
    return trace;
  }

  int64_t line_ = 0;
  std::vector<std::string> problems_;
  std::map<std::string, size_t> columns_;
  size_t width_ = 0;
  std::vector<absl::string_view> cells_;
  std::vector<Row> rows_;
  std::map<std::pair<int, int>, Seen> workers_;  // By stage and dp.
};

}  // namespace

absl::StatusOr<Trace> ReadTrace(std::istream& csv) { return Reader().Read(csv); }

}  // namespace paceline::detect
