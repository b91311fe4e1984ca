// Puts the steps of a job together from the reports of its ranks: which steps are open, who has
// reported them, and when a step is settled, so that no more reports of it are waited for.
//
//   reports (rank, step), in any order ─▶ StepAssembler ─▶ steps, in ascending order
//
// A step is settled when no rank is awaited for it. A rank is no longer awaited when it has
// reported the step, or kReorder steps after it, or when it has been silent for `open_steps` steps.
// A silent rank is awaited again after anything new from it, even if that is late; so is a rank
// that was ahead of the others.
//
// Reports get lost. So a step is also settled when only `few` ranks are awaited for it, and for the
// step that is `patience` younger. Patience is how far ranks lay behind lately with what they
// reported in order. It doubles for good when a rank is often late.
//
// Steps leave in ascending order: when the oldest is settled, or to make room for a newer one. But
// a step that hardly any rank has reported, because a rank invents steps of the future or the
// others have left one behind, is dropped where room is short, and may come again.
//
// The caller keeps what is measured, by the slot of the step and the rank. What a slot held is
// worthless once Added::is_first tells that another step has it.
//
// Pure. Nothing is allocated after the construction. Thread-compatible.
#ifndef CONTROLLER_CORE_STEPS_STEP_ASSEMBLER_H_
#define CONTROLLER_CORE_STEPS_STEP_ASSEMBLER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace paceline {

class StepAssembler {
 public:
  // A rank's reports come at most so many steps out of order.
  static constexpr int kReorder = 3;

  enum class Taken { kTaken, kLate, kRepeated };

  // What has become of a report.
  struct Added {
    Taken taken;    // Late is also a report that there is no room for.
    int slot;       // If taken: of its step, in [0, open_steps).
    bool is_first;  // If taken: the first report of its step.
  };

  // `few`: ranks that a step may do without, as their reports get lost. Requires: ranks > 0,
  // open_steps > 0, few >= 0.
  StepAssembler(int ranks, int open_steps, int few);

  // Whether the oldest step has to leave before this one of the rank can be taken.
  bool NeedsRoom(int rank, int64_t step) const;

  // Requires: !NeedsRoom(rank, step), 0 <= rank < ranks.
  Added Add(int rank, int64_t step);

  bool empty() const { return open_.empty(); }
  // Of the oldest. Require: !empty().
  bool settled() const;
  int64_t step() const { return open_.front().step; }
  int slot() const { return open_.front().slot; }
  int missing() const { return ranks_ - open_.front().present; }  // Ranks.
  bool has_reported(int rank) const { return IsPresent(open_.front(), rank); }
  void RemoveOldest();

 private:
  struct Open {
    int64_t step;
    int slot;
    int present;  // Ranks that have reported it.
    int awaited;  // Ranks that have not, and are expected to.
  };
  using Steps = std::vector<Open>;
  struct RankProgress {
    int64_t settled;  // Up to this step it is awaited no more.
    int64_t newest;   // Reported.
    int silent = 0;   // Steps in a row that have left without it; open_steps: not awaited.
    double late = 0;  // Share of its reports, forgetting.
  };

  bool Has(int64_t step) const;
  // Hardly any.
  bool FewHaveReported(const Open& open) const;
  // Open steps that few have reported, and this rank among them.
  int StepsAhead(int rank) const;
  // They are half of the window.
  bool IsAhead(int rank) const { return 2 * StepsAhead(rank) >= open_steps_; }
  // Which step to drop for this one, when there is no room: open_.size() if none.
  size_t Dispensable(int rank, int64_t step) const;
  void Drop(size_t position);
  Steps::iterator Find(int64_t step);
  Steps::iterator Insert(Steps::iterator before, int64_t step);
  size_t BitOf(const Open& open, int rank) const;
  bool IsPresent(const Open& open, int rank) const { return present_[BitOf(open, rank)]; }
  bool IsAwaited(const RankProgress& rank, int64_t step) const;
  void CountLate(RankProgress& rank);
  // For all open steps after this one that it has not reported.
  void AwaitAgain(int rank, int64_t after);
  void Settle(int rank, Steps::iterator reported);

  const int ranks_;
  const int open_steps_;
  const int few_;
  std::vector<bool> present_;  // [slot][rank]: it has reported the step.
  std::vector<int> free_;      // Slots.
  Steps open_;                 // In ascending order.
  std::vector<RankProgress> progress_;
  int patience_;
  int least_patience_ = 1;
  int opened_ = 0;   // Steps since patience was set,
  int behind_ = 0;   // and how far behind the newest one a report was that came in order.
  int64_t removed_;  // The newest step that has left.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STEPS_STEP_ASSEMBLER_H_
