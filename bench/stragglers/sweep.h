// The histories that claims about detection rest on (docs/straggler-harness.md).
#ifndef BENCH_STRAGGLERS_SWEEP_H_
#define BENCH_STRAGGLERS_SWEEP_H_

#include <cstdint>
#include <string>
#include <vector>

namespace paceline::detect {

// Seeds with which parameters were chosen, and seeds of reported figures; no seed is in both sets.
struct Seeds {
  uint64_t first = 0;
  uint64_t last = 0;
};
inline constexpr Seeds kTuningSeeds = {1, 1000};
inline constexpr Seeds kReportingSeeds = {1'000'001, 1'000'040};

// Rows are summed by the claim that they prove.
enum class Claim {
  kTenPercent,    // A slowdown of 10 % or more at once, in the usual noise.
  kHarder,        // One that is smaller, grows slowly, comes and goes, or has more noise.
  kFivePercent,   // One of 5 % at once, in the usual noise.
  kNotStraggler,  // Nothing, or a slowdown of many ranks: no rank must be called slow.
};

struct SweepRow {
  std::string name;
  std::string spec;
  Claim claim = Claim::kTenPercent;
  int per_seed = 1;  // Histories of each seed.
  int every = 1;     // Only one in this many seeds is used.
};

const std::vector<SweepRow>& Sweep();

// Seed of the `index`th history (from 0) of a row for a seed.
uint64_t HistorySeed(uint64_t seed, int index);

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_SWEEP_H_
