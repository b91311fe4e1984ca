#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "bench/stragglers/trace.h"
#include "bench/stragglers/trace_table.h"

namespace paceline::detect {
namespace {

constexpr double kMost = 9e15;  // Up to here a double represents every whole number.
constexpr double kTwoTo63 = 9223372036854775808.0;
constexpr size_t kMostGenerations = std::numeric_limits<uint16_t>::max();
constexpr float kNotKnown = std::numeric_limits<float>::quiet_NaN();

class Reader {
 public:
  explicit Reader(std::istream& csv) : table_(csv) {}

  absl::StatusOr<Trace> Read() {
    while (table_.Next()) ReadRow();
    std::vector<std::string> problems = table_.problems();
    if (problems.empty() && rows_.empty()) problems.emplace_back("no row of data");
    if (!problems.empty()) return absl::InvalidArgumentError(absl::StrJoin(problems, "\n"));
    Arrange();
    return std::move(trace_);
  }

 private:
  struct Place {  // Where a worker is in a generation.
    std::string node;
    int64_t line = 0;  // First line that named it.
  };

  void ReadRow() {
    const size_t problems_before = table_.problems().size();
    TraceRow row;
    row.step = Step();
    const auto dp = static_cast<int>(table_.Whole(kDp, 0, 1e9));
    const auto stage = static_cast<int>(table_.Whole(kStage, 0, 1e9));
    row.forward_s = static_cast<float>(table_.Number(kForward));
    row.backward_s = static_cast<float>(table_.Number(kBackward));
    row.wall_s = NumberOrZero(kWall);
    row.data_wait_s = static_cast<float>(table_.Number(kDataWait));
    row.workload = NumberOrZero(kWorkload);
    row.masked = table_.YesOrNo(kMasked);
    const int64_t generation =
        table_.IsKnown(kGeneration) ? table_.Whole(kGeneration, 0, kMost) : 0;
    if (table_.problems().size() > problems_before) return;
    row.generation = Generation(generation);
    row.worker =
        workers_.try_emplace(std::pair(stage, dp), static_cast<int>(workers_.size())).first->second;
    row.line = static_cast<uint32_t>(table_.line());
    PlaceWorker(row);
    rows_.push_back(row);
  }

  float NumberOrZero(Column column) {
    const auto value = static_cast<float>(table_.Number(column));
    return std::isnan(value) ? 0 : value;
  }

  uint16_t Generation(int64_t number) {
    const size_t index = generations_.try_emplace(number, generations_.size()).first->second;
    if (index >= kMostGenerations) table_.Problem(kGeneration, "there are too many");
    return static_cast<uint16_t>(index);
  }

  void PlaceWorker(const TraceRow& row) {
    const absl::string_view node = table_.IsKnown(kNode) ? table_.Cell(kNode) : "";
    Place& place = places_[{row.generation, row.worker}];
    if (node.empty() || node == place.node) return;
    if (!place.node.empty()) {
      return table_.Problem(
          kNode, absl::StrFormat("this worker is on %s, but in line %d, of the same generation, on "
                                 "%s; tell a restart by another number in a column generation",
                                 Quoted(node), place.line, Quoted(place.node)));
    }
    place = {std::string(node), table_.line()};
  }

  int64_t Step() {
    int64_t whole = 0;
    if (absl::SimpleAtoi(table_.Cell(kStep), &whole)) {
      if (!steps_.empty()) steps_.push_back(static_cast<double>(whole));
      return whole;
    }
    const std::optional<double> value = table_.Parse(kStep);
    if (!value.has_value()) return 0;
    if (!std::isfinite(*value)) {
      table_.Problem(kStep, absl::StrCat(Quoted(table_.Cell(kStep)), " is no step"));
    }
    const bool fits = *value >= -kTwoTo63 && *value < kTwoTo63 && *value == std::floor(*value);
    if (fits && steps_.empty()) return static_cast<int64_t>(*value);
    if (steps_.empty()) {
      for (const TraceRow& row : rows_) steps_.push_back(static_cast<double>(row.step));
    }
    steps_.push_back(*value);
    return 0;
  }

  void Arrange() {
    NumberSteps();
    NumberWorkers();
    NumberGenerations();
    PlaceRanks();
    ForgetUnreported();
    const auto before = [](const TraceRow& a, const TraceRow& b) {
      return std::tie(a.generation, a.step, a.worker, a.line) <
             std::tie(b.generation, b.step, b.worker, b.line);
    };
    if (!std::is_sorted(rows_.begin(), rows_.end(), before)) {
      std::sort(rows_.begin(), rows_.end(), before);
    }
    for (size_t column = 0; column < kColumnNames.size(); ++column) {
      const int64_t cells = table_.unknown(static_cast<Column>(column));
      if (cells > 0) trace_.unknown[kColumnNames[column]] = cells;
    }
    trace_.names_generations = table_.Has(kGeneration);
    trace_.passed_over = table_.passed_over();
    trace_.cut_off = table_.cut_off();
    trace_.rows = std::move(rows_);
  }

  void NumberSteps() {
    if (steps_.empty()) return;
    std::vector<double>& names = trace_.steps;
    names.assign(steps_.begin(), steps_.end());
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (size_t i = 0; i < rows_.size(); ++i) {
      rows_[i].step = std::lower_bound(names.begin(), names.end(), steps_[i]) - names.begin();
    }
    steps_.clear();
  }

  void NumberWorkers() {
    std::vector<std::pair<std::pair<int, int>, int>> sorted(workers_.begin(), workers_.end());
    std::sort(sorted.begin(), sorted.end());
    worker_of_.resize(sorted.size());
    for (const auto& [key, index] : sorted) {
      worker_of_[static_cast<size_t>(index)] = static_cast<int>(trace_.workers.size());
      trace_.workers.push_back({key.second, key.first});
      if (trace_.stages.empty() || trace_.stages.back() != key.first) {
        trace_.stages.push_back(key.first);
      }
    }
    for (TraceRow& row : rows_) row.worker = worker_of_[static_cast<size_t>(row.worker)];
  }

  void NumberGenerations() {
    std::vector<std::pair<int64_t, size_t>> sorted(generations_.begin(), generations_.end());
    std::sort(sorted.begin(), sorted.end());
    generation_of_.resize(sorted.size());
    for (const auto& [number, index] : sorted) {
      generation_of_[index] = static_cast<uint16_t>(trace_.generations.size());
      trace_.generations.push_back({number, {}, {}});
    }
    for (TraceRow& row : rows_) row.generation = generation_of_[row.generation];
  }

  void PlaceRanks() {
    std::map<std::string, int> nodes;
    std::map<std::pair<uint16_t, int>, std::string> sorted;
    for (auto& [key, place] : places_) {
      if (!place.node.empty()) nodes.emplace(place.node, 0);
      sorted[{generation_of_[key.first], worker_of_[static_cast<size_t>(key.second)]}] = place.node;
    }
    for (auto& [name, number] : nodes) {
      number = static_cast<int>(trace_.nodes.size());
      trace_.nodes.push_back(name);
    }
    for (const auto& [key, name] : sorted) {
      TraceGeneration& generation = trace_.generations[key.first];
      const int node = name.empty() ? static_cast<int>(nodes.size()) + key.second : nodes.at(name);
      const auto stage = std::lower_bound(trace_.stages.begin(), trace_.stages.end(),
                                          trace_.workers[static_cast<size_t>(key.second)].stage);
      generation.workers.push_back(key.second);
      generation.ranks.push_back({node, static_cast<int>(stage - trace_.stages.begin())});
    }
  }

  // Marks values that no row has as not known.
  void ForgetUnreported() {
    bool forward = false;
    bool backward = false;
    for (const TraceRow& row : rows_) {
      forward = forward || !std::isnan(row.forward_s);
      backward = backward || (row.backward_s != 0 && !std::isnan(row.backward_s));
    }
    trace_.knows_forward = forward;
    trace_.knows_backward = backward;
    if (backward) return;
    for (TraceRow& row : rows_) row.backward_s = kNotKnown;
  }

  TraceTable table_;
  Trace trace_;
  std::deque<TraceRow> rows_;  // With these indices of workers and generations:
  absl::flat_hash_map<std::pair<int, int>, int> workers_;  // By stage and dp.
  absl::flat_hash_map<int64_t, size_t> generations_;       // By number.
  absl::flat_hash_map<std::pair<uint16_t, int>, Place> places_;
  std::vector<int> worker_of_;  // The final indices.
  std::vector<uint16_t> generation_of_;
  std::deque<double> steps_;  // Steps of the rows, once one is not a whole number or does not fit.
};

}  // namespace

absl::StatusOr<Trace> ReadTrace(std::istream& csv) { return Reader(csv).Read(); }

absl::StatusOr<Trace> ReadTraceFile(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is a folder, not a file"));
  }
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(absl::StrCat(path, ": cannot be read: ", std::strerror(errno)));
  }
  absl::StatusOr<Trace> trace = ReadTrace(file);
  if (trace.ok()) return trace;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", trace.status().message()));
}

double ComputeOf(const TraceRow& row, const Trace& trace) {
  if (!trace.knows_backward) return row.forward_s;
  return static_cast<double>(row.backward_s) + (trace.knows_forward ? row.forward_s : 0.0F);
}

StepSample SampleOf(const TraceRow& row, int rank) {
  StepSample sample;
  sample.rank = rank;
  sample.step = row.step;
  sample.forward_s = row.forward_s;
  sample.backward_s = row.backward_s;
  sample.data_wait_s = row.data_wait_s;
  sample.wall_s = row.wall_s;
  sample.workload = row.workload;
  sample.masked = row.masked;
  return sample;
}

}  // namespace paceline::detect
