#include "bench/stragglers/warm_up.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/median.h"

namespace paceline::detect {
namespace {

constexpr size_t kMostSteps = 20;
constexpr size_t kComparedSteps = 200;  // Later steps that show what is usual.
constexpr double kLonger = 1.05;

}  // namespace

int WarmUpSteps(const Trace& trace, size_t generation) {
  const auto begin =
      std::partition_point(trace.rows.begin(), trace.rows.end(),
                           [&](const TraceRow& row) { return row.generation < generation; });
  std::vector<std::deque<TraceRow>::const_iterator> steps;  // First row of each; the last's end.
  auto row = begin;
  for (; row != trace.rows.end() && row->generation == generation; ++row) {
    if (!steps.empty() && steps.back()->step == row->step) continue;
    if (steps.size() == kMostSteps + kComparedSteps) break;
    steps.push_back(row);
  }
  const size_t first = std::min(kMostSteps, steps.size() / 4);
  if (first == 0) return 0;
  steps.push_back(row);

  std::map<int, std::vector<double>> later;  // By worker.
  for (auto at = steps[first]; at != steps.back(); ++at) {
    if (const double compute = ComputeOf(*at, trace); compute > 0 && !at->masked) {
      later[at->worker].push_back(compute);
    }
  }
  std::map<int, double> usual;
  for (auto& [worker, values] : later) usual[worker] = MedianOf(absl::MakeSpan(values));
  for (size_t step = first; step > 0; --step) {
    std::map<int, std::vector<double>> ratios;  // By stage.
    for (auto at = steps[step - 1]; at != steps[step]; ++at) {
      const auto known = usual.find(at->worker);
      const double compute = ComputeOf(*at, trace);
      if (known == usual.end() || !(compute > 0) || at->masked) continue;
      ratios[trace.workers[static_cast<size_t>(at->worker)].stage].push_back(compute /
                                                                             known->second);
    }
    for (auto& [stage, values] : ratios) {
      if (MedianOf(absl::MakeSpan(values)) > kLonger) return static_cast<int>(step);
    }
  }
  return 0;
}

}  // namespace paceline::detect
