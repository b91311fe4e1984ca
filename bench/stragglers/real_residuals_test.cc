#include "bench/stragglers/real_residuals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <utility>

#include "bench/stragglers/trace.h"

namespace paceline::detect {
namespace {

// Logarithms of compute over the median of the stage, by worker (stage, dp), in the steps' order.
std::map<std::pair<int, int>, std::vector<double>> Residuals(const std::string& name) {
  std::ifstream csv("bench/stragglers/testdata/" + name);
  const auto trace = ReadTrace(csv);
  EXPECT_TRUE(trace.ok()) << trace.status();
  std::map<std::pair<int64_t, int>, std::map<int, double>> steps;  // By step and stage: of each dp.
  for (const TraceRow& row : trace->rows) {
    const TraceWorker& worker = trace->workers[static_cast<size_t>(row.worker)];
    steps[{row.step, worker.stage}][worker.dp] = std::log(row.forward_s + row.backward_s);
  }
  std::map<std::pair<int, int>, std::vector<double>> residuals;
  for (const auto& [key, of_dp] : steps) {
    std::vector<double> sorted;
    for (const auto& [dp, value] : of_dp) sorted.push_back(value);
    std::sort(sorted.begin(), sorted.end());
    const size_t n = sorted.size();
    const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    for (const auto& [dp, value] : of_dp) residuals[{key.second, dp}].push_back(value - median);
  }
  return residuals;
}

TEST(RealResidualsTest, AreThoseOfTheTraces) {
  std::vector<std::vector<double>> expected;
  for (const auto& [worker, values] : Residuals("AR_rank_steps.csv")) {
    if (worker != std::pair(0, 0)) expected.push_back(values);
  }
  for (const auto& [worker, values] : Residuals("ST_rank_steps.csv")) {
    if (worker.second == 0) expected.push_back(values);
  }
  const auto& residuals = RealResiduals();
  ASSERT_EQ(residuals.size(), expected.size());
  for (size_t w = 0; w < expected.size(); ++w) {
    const auto n = static_cast<double>(expected[w].size());
    double mean = 0;
    for (const double value : expected[w]) mean += value / n;
    double variance = 0;
    for (const double value : expected[w]) variance += (value - mean) * (value - mean) / n;
    ASSERT_EQ(residuals[w].size(), expected[w].size());
    for (size_t i = 0; i < expected[w].size(); ++i) {
      EXPECT_NEAR(residuals[w][i], 100 * (expected[w][i] - mean) / std::sqrt(variance), 0.51);
    }
  }
}

}  // namespace
}  // namespace paceline::detect
