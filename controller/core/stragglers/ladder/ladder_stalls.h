// What the ranks of a job have measured of their latest steps, for the planner of ladders.
//
// The own time of a rank in a step is all of the step but waiting for others. It does not depend on
// the ladder; what the step of the job comes to does, as it depends on who waits for whom
// (ladder_model.h). So whole steps are kept, with all their ranks: whatever the stalls have in
// common, by rank, by node or in time, is in there, and nothing is assumed of their distribution.
//
// Memory is bounded: 1,024 steps are kept, fewer with more than 512 ranks so that it is 2 MiB, but
// at least 192. Pure. Thread-compatible.
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

// What they amount to, for people.
struct StallSummary {
  int ranks = 0;
  int steps = 0;
  double typical_s = 0;      // Median.
  double stall_share = 0;    // Of the rank-steps: above kStall times the rank's own median.
  double mean_stall_s = 0;   // By which they are longer than that median.
  double synchronous_s = 0;  // Mean step if all ranks wait for one another at each.
  double floor_s = 0;        // Mean of the slowest rank: no ladder makes the step shorter.
  int slowest_rank = 0;
};

inline constexpr double kStall = 1.25;
// No longer step is believed.
inline constexpr double kMaxOwnS = 3600;
// So many steps are kept of so many ranks. Requires: ranks > 0.
int LadderWindow(int ranks);

// Requires: ranks > 0, steps > 0.
StallSummary SummarizeStalls(const OwnTimes& times);

// Of one generation of a job.
class LadderStalls {
 public:
  // Requires: ranks > 0.
  explicit LadderStalls(int ranks);

  // Ranks are 0-based; steps count up, and their times may come in any order. What is not a rank or
  // a time (negative, not a number, above an hour), comes twice, or belongs to a step that has left
  // the window, changes nothing and is counted.
  void Add(int rank, int64_t step, double own_s);
  // The step is not like others (checkpoint, evaluation, profile, compile): it is left out.
  void Mask(int64_t step);

  // The steps that 95 % of the ranks have told of, oldest first; who has not told gets the median.
  OwnTimes Take() const;

  int64_t refused() const { return refused_; }
  int window() const { return static_cast<int>(slots_.size()); }

 private:
  struct Slot {
    int64_t step = -1;
    int present = 0;
    bool masked = false;
  };
  // The slot of a step; null: it has left the window.
  Slot* Open(int64_t step);
  bool IsComplete(const Slot& slot) const;
  float* RowOf(const Slot* slot);

  const int ranks_;
  const int enough_;          // Ranks that make a step complete.
  std::vector<Slot> slots_;   // Of step s: s modulo their number.
  std::vector<float> times_;  // [slot * ranks + rank]; negative: not told.
  int64_t newest_ = -1;       // Complete step.
  int64_t refused_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_STALLS_H_
