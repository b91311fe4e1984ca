// Cost of measuring for a training step: steps with a fixed amount of work, alternately bare and
// measured like in train_loop.cc and progress_report.cc; and the measuring alone. Prints one
// JSON object: {"bare_ms": [...], "measured_ms": [...], "step_ns": N, "interval_ns": N}.
#include <ATen/ops/full.h>
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "worker/ring/step_ring.h"
#include "worker/trainer/core/trend.h"
#include "worker/trainer/telemetry/cpu_step_timer.h"
#include "worker/trainer/telemetry/host_memory.h"
#include "worker/trainer/telemetry/interval.h"

namespace paceline {
namespace {

constexpr Phase kMarks[] = {Phase::kDataWait,      Phase::kForward,   Phase::kBackward,
                            Phase::kCommunication, Phase::kOptimizer, Phase::kAveraging};
constexpr int kMarkCount = 6;
constexpr int64_t kStepsPerInterval = 10;  // The default of log_every.

// Arithmetic that the compiler cannot shorten.
void Work(uint64_t iterations) {
  uint64_t x = 88172645463325252;
  for (uint64_t i = 0; i < iterations; ++i) {
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
  }
  benchmark::DoNotOptimize(x);
}

double MillisSince(uint64_t start_ns) {
  return static_cast<double>(MonotonicNanos() - start_ns) * 1e-6;
}

class Measuring {
 public:
  explicit Measuring(StepRingWriter& ring) : timer_(ring) {}

  void Step(int64_t step, uint64_t work) {
    for (const Phase phase : kMarks) {
      timer_.Enter(phase, step);
      Work(work / kMarkCount);
    }
    StepResult result;
    result.step = step;
    result.samples = 32;
    result.loss = loss_;
    result.grad_norm = norm_;
    timer_.EndStep(result);
    for (const StepRecord& record : timer_.TakeFinished()) interval_.Add(record, true);
    if (interval_.steps() == kStepsPerInterval) EndInterval();
  }

  void EndInterval() {
    RankFigures figures = interval_.End(cost_);
    const HostMemory memory = ReadHostMemory();
    ResetRssPeak();
    trend_.Add(figures.wall_s, static_cast<double>(memory.rss));
    figures.memory.rss_slope = trend_.Slope();
  }

 private:
  CpuStepTimer timer_;
  const Interval::Cost cost_{/*flops_per_sample=*/1e6, FlopsSource::kFormula, /*peak_flops=*/1e12};
  Interval interval_;
  Trend trend_{32};
  const at::Tensor loss_ = at::full({}, 2.5f);
  const at::Tensor norm_ = at::full({}, 1.5f);
};

nlohmann::json Run(StepRingWriter& ring, int pairs, double step_ms) {
  constexpr uint64_t kProbe = 20'000'000;
  uint64_t start = MonotonicNanos();
  Work(kProbe);
  const auto work = static_cast<uint64_t>(kProbe * step_ms / MillisSince(start));

  Measuring measuring(ring);
  nlohmann::json bare = nlohmann::json::array();
  nlohmann::json measured = nlohmann::json::array();
  int64_t step = 0;
  for (int i = 0; i < pairs; ++i) {
    start = MonotonicNanos();
    for (int mark = 0; mark < kMarkCount; ++mark) Work(work / kMarkCount);
    bare.push_back(MillisSince(start));
    start = MonotonicNanos();
    measuring.Step(step++, work);
    measured.push_back(MillisSince(start));
  }

  constexpr int64_t kRepeats = 20000;
  start = MonotonicNanos();
  for (int64_t i = 0; i < kRepeats; ++i) measuring.Step(step++, 0);
  const double with_intervals = MillisSince(start) * 1e6 / kRepeats;
  start = MonotonicNanos();
  constexpr int kIntervals = 2000;
  for (int i = 0; i < kIntervals; ++i) measuring.EndInterval();
  const double interval = MillisSince(start) * 1e6 / kIntervals;
  return {{"bare_ms", bare},
          {"measured_ms", measured},
          {"step_ns", with_intervals},
          {"interval_ns", interval}};
}

int Main(int argc, char** argv) {
  int pairs = 200;
  double step_ms = 50;
  CLI::App app("What measuring costs a training step.");
  app.add_option("--pairs", pairs, "bare and measured steps")->capture_default_str();
  app.add_option("--step-ms", step_ms, "length of a step")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const std::string path = "/dev/shm/paceline-bench." + std::to_string(::getpid());
  if (!CreateStepRing(path, 4096).ok()) return 1;
  absl::StatusOr<StepRingWriter> ring = StepRingWriter::Open(path);
  ::unlink(path.c_str());
  if (!ring.ok()) return 1;
  std::cout << Run(*ring, pairs, step_ms) << std::endl;
  return 0;
}

}  // namespace
}  // namespace paceline

int main(int argc, char** argv) { return paceline::Main(argc, argv); }
