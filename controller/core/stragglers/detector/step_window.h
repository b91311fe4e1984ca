// The steps of which reports still come: a bounded, preallocated window.
//
// A step is settled when no rank is awaited any more: each has reported it, or kReorder steps after
// it, or has been silent for as many steps as the window holds; such a one is awaited again after
// anything new from it, be it too late, and so is one that was ahead of the others. A step is also
// settled when few are awaited, and few for the step that is `patience` younger: reports get lost.
// Patience is what ranks lay behind of late with what they reported in order; it doubles for good
// when a rank often comes too late.
//
// Steps leave in ascending order: when the oldest is settled, or to make room for a newer one. But
// a step that hardly any rank has told, of one that invents steps of the future or of one that the
// others have left behind, is no row: where room is short, it is dropped, and may come again.
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

// Of a step, by rank. Seconds.
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
  // A rank's reports come at most so many steps out of order.
  static constexpr int kReorder = 3;

  enum class Taken { kTaken, kLate, kRepeated };

  // Requires: both > 0.
  StepWindow(int ranks, int open_steps);

  // Whether the oldest step has to leave before this one of the rank can be taken.
  bool NeedsRoom(int rank, int64_t step) const;

  // Late is also what there is no room for. Requires: !NeedsRoom(sample.rank, sample.step), a rank
  // of the window.
  Taken Add(const StepSample& sample);

  bool empty() const { return open_.empty(); }
  // Of the oldest. Require: !empty().
  bool settled() const;
  int64_t step() const { return open_.front().step; }
  bool masked() const { return open_.front().masked; }
  int missing() const { return ranks_ - open_.front().present; }
  absl::Span<const StepCell> cells() const;  // By rank, until the next call.
  void RemoveOldest();

 private:
  struct Open {
    int64_t step;
    int slot;
    int present;  // Ranks that have reported it.
    int awaited;  // Ranks that have not, and are expected to.
    bool masked;
  };
  struct RankProgress {
    int64_t settled;  // Up to this step it is awaited no more.
    int64_t newest;   // Reported.
    int silent = 0;   // Steps in a row that have left without it; open_steps: not awaited.
    double late = 0;  // Share of its reports, forgetting.
  };

  bool Has(int64_t step) const;
  // Hardly any.
  bool FewHaveTold(const Open& open) const;
  // Open steps that few have told, and this rank among them.
  int StepsAhead(int rank) const;
  // They are half of the window.
  bool IsAhead(int rank) const { return 2 * StepsAhead(rank) >= open_steps_; }
  // Which step to drop for this one, when there is no room: open_.size() if none.
  size_t Dispensable(int rank, int64_t step) const;
  void Drop(size_t position);
  std::vector<Open>::iterator Find(int64_t step);
  std::vector<Open>::iterator Insert(std::vector<Open>::iterator before, int64_t step);
  size_t CellIndex(const Open& open, int rank) const;
  bool IsPresent(const Open& open, int rank) const;
  bool IsAwaited(const RankProgress& rank, int64_t step) const;
  bool FewAwaited(const Open& open) const;
  void CountLate(RankProgress& rank);
  // For all open steps after this one that it has not reported.
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
  int opened_ = 0;   // Steps since patience was set,
  int behind_ = 0;   // and how far behind the newest one a report was that came in order.
  int64_t removed_;  // The newest step that has left.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_STEP_WINDOW_H_
