// Cost of handling the report of one rank for one step, in jobs of several sizes, some of whose
// ranks are slow. Histories are drawn beforehand and played in turn.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/stragglers/history.h"
#include "bench/stragglers/history_spec.h"
#include "controller/core/stragglers/detector/detector.h"

namespace paceline {
namespace {

constexpr int kSteps = 200;

// All reports of a history, in the order in which they come.
std::vector<StepSample> Reports(const detect::History& drawn) {
  detect::History history = drawn;
  std::vector<StepSample> reports;
  std::vector<StepSample> arrivals;
  bool restarted = false;
  for (bool more = true; more;) {
    more = history.Next(arrivals, restarted);
    reports.insert(reports.end(), arrivals.begin(), arrivals.end());
  }
  return reports;
}

void BM_Detect(benchmark::State& state, const char* spec) {
  const detect::HistorySpec parsed =
      detect::ParseSpec(absl::StrCat("ranks=", state.range(0), " steps=", kSteps, " ", spec))
          .value();
  const detect::History history(parsed, 1);
  std::vector<StepSample> reports = Reports(history);
  StragglerDetector detector({}, history.ranks());
  std::vector<Verdict> verdicts;
  size_t next = 0;
  int64_t found = 0;
  for (auto _ : state) {
    StepSample& report = reports[next];
    detector.Add(report, verdicts);
    report.step += kSteps;  // For the next round.
    if (++next == reports.size()) next = 0;
    if (!verdicts.empty()) {
      found += static_cast<int64_t>(verdicts.size());
      verdicts.clear();
    }
  }
  state.SetItemsProcessed(state.iterations());
  state.counters["verdicts"] = static_cast<double>(found);
}

constexpr char kUsual[] = "faults=4 transients=8";
constexpr char kReports[] =
    "faults=4 transients=8 missing=0.01 late=0.01 repeated=0.01 reordered=yes";
constexpr char kNoisy[] = "faults=4 transients=8 sd=0.05 noise=gaussian rho=0.3";
BENCHMARK_CAPTURE(BM_Detect, usual, kUsual)->Arg(256)->Arg(1024)->Arg(10000);
BENCHMARK_CAPTURE(BM_Detect, lost_late_and_repeated, kReports)->Arg(256)->Arg(1024)->Arg(10000);
BENCHMARK_CAPTURE(BM_Detect, noise_5_percent, kNoisy)->Arg(256)->Arg(1024)->Arg(10000);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
