// Describes a generated history of a job's step times by a short text of key=value pairs, such as
// "ranks=64 factor=1.2 noise=student sd=0.02". SpecHelp lists all keys with their defaults.
#ifndef BENCH_STRAGGLERS_HISTORY_SPEC_H_
#define BENCH_STRAGGLERS_HISTORY_SPEC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline::detect {

// Values are drawn uniformly from this range. Written "low..high", or as one number.
struct Range {
  double low = 0;
  double high = 0;
};

// Distribution of the noise of a rank's step, with variance 1.
enum class Noise {
  kGaussian,
  kLaplace,
  kLogNormal,  // Skewed to long steps.
  kStudent,    // Four degrees of freedom: heavy tails.
  kBursts,     // Quiet, with blocks of steps three times as loud for a whole node.
  kQuantised,  // Gaussian, and durations are counted in ticks of 10 ms.
  kReal,       // Blocks of the residuals of two published traces (real_residuals.h).
  kMixed,      // One of the above per history.
};

enum class Scope { kRank, kNode, kGroup, kStage, kJob };
enum class Shape { kStep, kRamp, kIntermittent, kOneOff };
enum class FaultCause { kCompute, kData, kPause };

// Their names in a text, by value.
inline constexpr const char* kScopeNames[] = {"rank", "node", "group", "stage", "job"};
inline constexpr const char* kShapeNames[] = {"step", "ramp", "intermittent", "oneoff"};
inline constexpr const char* kFaultCauseNames[] = {"compute", "data", "pause"};

struct HistorySpec {
  // The job. Rank r is of stage r / (ranks / stages) and on node r / ranks_per_node.
  int ranks = 256;
  int ranks_per_node = 8;
  int stages = 4;
  int steps = 1000;
  Range step_s = {1.5, 2.4};
  double last_stage = 1.6;
  double spread = 0.004;
  double drift = 0.01;
  int checkpoint_every = 250;
  int restarts = 0;

  // Chance.
  Noise noise = Noise::kMixed;
  double sd = 0.008;
  double rho = 0.3;
  double pauses = 0.002;
  Range pause_s = {0.2, 0.6};
  double loader = 0.002;
  bool loader_reported = true;
  double imbalance = 0;
  bool workload = false;

  // Reports.
  double missing = 0;
  double late = 0;
  double repeated = 0;
  bool reordered = false;
  double garbage = 0;

  // What is to be found.
  int faults = 4;
  double factor = 1.1;
  Scope scope = Scope::kRank;
  int fault_ranks = 1;
  Shape shape = Shape::kStep;
  FaultCause cause = FaultCause::kCompute;
  Range onset = {0.1, 0.4};
  bool together = false;
  int ramp = 200;
  int on = 30;
  int off = 30;
  double share = 0.5;
  double transients = 4;
  bool transient_nodes = false;
  Range transient_factor = {1.1, 3};
  Range transient_steps = {5, 100};
};

// INVALID_ARGUMENT names every unknown key and every invalid value.
absl::StatusOr<HistorySpec> ParseSpec(absl::string_view text);

// The keys with non-default values, in a fixed order: ParseSpec gives the same spec again.
std::string SpecText(const HistorySpec& spec);

// One line per key: name, default, meaning.
std::string SpecHelp();

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_HISTORY_SPEC_H_
