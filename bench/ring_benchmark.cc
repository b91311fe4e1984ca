// What one training step pays for its telemetry: the records of a whole step, that is six
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
    writer->Enter(Phase::kAveraging, step);
    writer->Append(writer->EndStep(step));
    ++step;
  }
  ::unlink(path.c_str());
}
BENCHMARK(BM_WholeStep);

// The floor: a step reads the clock seven times.
void BM_SevenClockReads(benchmark::State& state) {
  for (auto _ : state) {
    for (int i = 0; i < 7; ++i) benchmark::DoNotOptimize(MonotonicNanos());
  }
}
BENCHMARK(BM_SevenClockReads);

}  // namespace
}  // namespace paceline

BENCHMARK_MAIN();
