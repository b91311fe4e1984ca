// The steps whose reports are still coming, in a bounded, preallocated window.
//
// A step is settled when no rank is awaited any more. A rank is not awaited if it has reported the
// step, or one kReorder steps later, or has been silent for as many steps as the window holds. It
// is awaited again after anything new from it, even if too late, and so is a rank that was ahead of
// the others. As reports get lost, a step is also settled when few ranks are awaited for it, and
// few for the step that is `patience` younger. Patience is how far behind ranks lately were with
// what they reported in order; it doubles for good when a rank often comes too late.
//
// Steps leave in ascending order: when the oldest is settled, or to make room for a newer one. But
// a step that hardly any rank has reported, because one rank invents future steps or one was left
// behind by the others, is no row: it is dropped if room is short, and may come again.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_STEP_WINDOW_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_STEP_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "controller/core/stragglers/detector/step_sample.h"

namespace paceline {

// A rank's part of a step. Seconds.
struct StepCell {
  float forward_s = 0;
  float backward_s = 0;
  float data_wait_s = 0;
  float wall_s = 0;
  float workload = 0;
  bool present = false;
};

class StepWindow {
 public:
  // A rank's reports come at most this many steps out of order.
  static constexpr int kReorder = 3;

  enum class Taken { kTaken, kLate, kRepeated };

  // Requires: both > 0.
  StepWindow(int ranks, int open_steps);

  // Whether the oldest step must leave before this step of the rank can be taken.
  bool NeedsRoom(int rank, int64_t step) const;

  // kLate also if there is no room. Requires: !NeedsRoom(sample.rank, sample.step), and the rank is
  // one of the window's.
  Taken Add(const StepSample& sample);

  bool empty() const { return open_.empty(); }
  // About the oldest step. Requires: !empty().
  bool settled() const;
  int64_t step() const { return open_.front().step; }
  bool masked() const { return open_.front().masked; }
  int missing() const { return ranks_ - open_.front().present; }
  absl::Span<const StepCell> cells() const;  // By rank; valid until the next call.
  void RemoveOldest();

 private:
  struct Open {
    int64_t step;
    int slot;
    int present;  // Ranks that have reported it.
    int awaited;  // Ranks that have not, but are expected to.
    bool masked;
  };
  struct RankProgress {
    int64_t settled;  // Up to this step it is no longer awaited.
    int64_t newest;   // Newest step that it has reported.
    int silent = 0;   // Successive steps that left without it; open_steps: not awaited.
    double late = 0;  // Share of its recent reports that were late.
  };

  bool Has(int64_t step) const;
  // Whether hardly any rank has reported it.
  bool FewHaveTold(const Open& open) const;
  // How many open steps few ranks have reported, this one among them.
  int StepsAhead(int rank) const;
  // Whether these are half of the window.
  bool IsAhead(int rank) const { return 2 * StepsAhead(rank) >= open_steps_; }
  // Position of the step to drop for this one if there is no room; open_.size() if there is none.
  size_t Dispensable(int rank, int64_t step) const;
  void Drop(size_t position);
  std::vector<Open>::iterator Find(int64_t step);
  std::vector<Open>::iterator Insert(std::vector<Open>::iterator before, int64_t step);
  size_t CellIndex(const Open& open, int rank) const;
  bool IsPresent(const Open& open, int rank) const;
  bool IsAwaited(const RankProgress& rank, int64_t step) const;
  bool FewAwaited(const Open& open) const;
  void CountLate(RankProgress& rank);
  // Awaits the rank again for all open steps after this one that it has not reported.
  void AwaitAgain(int rank, int64_t after);
  void Settle(int rank, std::vector<Open>::iterator reported);

  const int ranks_;
  const int open_steps_;
  std::vector<StepCell> cells_;  // [slot][rank]
  std::vector<int> free_;        // Slots.
  std::vector<Open> open_;       // By step.
  std::vector<RankProgress> progress_;
  int patience_;
  int least_patience_ = 1;
  int opened_ = 0;   // Steps opened since patience was set,
  int behind_ = 0;   // and the most that a report in order was behind the newest step.
  int64_t removed_;  // The newest step that has left.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_STEP_WINDOW_H_
