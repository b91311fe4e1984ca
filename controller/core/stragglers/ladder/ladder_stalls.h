// What a job's ranks have measured in their latest steps, for the planner of ladders.
//
// A rank's own time in a step is all of the step but its waits for others. It does not depend on
// the ladder, while the job's step does, by who waits for whom (ladder_model.h). So whole steps are
// kept, with all their ranks. They contain whatever stalls have in common, by rank, node or time,
// and no assumption about their distribution is needed.
//
// Memory is bounded: 1,024 steps are kept, or fewer with more than 512 ranks, so as to take 2 MiB,
// but at least 192. Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_STALLS_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_STALLS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

// Own times of consecutive steps, in seconds.
struct OwnTimes {
  int ranks = 0;
  int steps = 0;
  std::vector<float> seconds;  // [step * ranks + rank].
};

// A summary of own times, for people.
struct StallSummary {
  int ranks = 0;
  int steps = 0;
  double typical_s = 0;      // Median.
  double stall_share = 0;    // Of the rank-steps: those above kStall times the rank's median.
  double mean_stall_s = 0;   // By how much these exceed that median.
  double synchronous_s = 0;  // Mean step if all ranks waited for one another at each.
  double floor_s = 0;        // Mean of the slowest rank: no ladder makes steps shorter.
  int slowest_rank = 0;
};

inline constexpr double kStall = 1.25;
// Longer steps are not believed.
inline constexpr double kMaxOwnS = 3600;
// How many steps are kept of this many ranks. Requires: ranks > 0.
int LadderWindow(int ranks);

// Requires: ranks > 0, steps > 0.
StallSummary SummarizeStalls(const OwnTimes& times);

// Of one generation of a job: the latest LadderWindow steps.
class LadderStalls {
 public:
  // Requires: ranks > 0.
  explicit LadderStalls(int ranks);

  // The next step: seconds of each rank. Not one that is unlike others (checkpoint, evaluation,
  // profile, compile).
  void Add(const std::vector<float>& own_s);

  // Oldest first.
  OwnTimes Take() const;

 private:
  const int ranks_;
  const size_t most_;         // Times that are kept.
  std::vector<float> times_;  // Grows to most_; then the oldest step is replaced.
  size_t oldest_ = 0;         // Where it begins.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_STALLS_H_
