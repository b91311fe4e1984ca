// What one training step pays for its telemetry: the records of a whole step, that is five
// phases entered and one end. Target: below 1 us.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdint>
#include <string>

#include "worker/ring/step_ring.h"

namespace paceline {
namespace {

constexpr uint32_t kCapacity = 4096;

std::string RingPath() { return "/dev/shm/paceline-bench." + std::to_string(::getpid()); }

void BM_WholeStep(benchmark::State& state) {
  const std::string path = RingPath();
  if (!CreateStepRing(path, kCapacity).ok()) {
    state.SkipWithError("cannot create the ring");
    return;
  }
  auto writer = StepRingWriter::Open(path);
  uint64_t step = 0;
  for (auto _ : state) {
    writer->Enter(Phase::kDataWait, step);
    writer->Enter(Phase::kForward, step);
    writer->Enter(Phase::kBackward, step);
    writer->Enter(Phase::kCommunication, step);
    writer->Enter(Phase::kOptimizer, step);
    writer->EndStep(step, 32, 0.5f);
    ++step;
  }
  ::unlink(path.c_str());
}
BENCHMARK(BM_WholeStep);

// The floor: a step reads the clock six times.
void BM_SixClockReads(benchmark::State& state) {
  for (auto _ : state) {
    for (int i = 0; i < 6; ++i) benchmark::DoNotOptimize(MonotonicNanos());
  }
}
BENCHMARK(BM_SixClockReads);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
