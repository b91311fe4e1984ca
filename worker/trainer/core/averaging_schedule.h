// Decides which level of a ladder averages parameters after a step. Follows PyTorch's
// HierarchicalModelAverager and PeriodicModelAverager, as a function of the step only.
//
// Steps are optimizer steps counted from 0, including skipped ones. No level acts before the end of
// the warm-up. After it:
//   hierarchical  the last level whose period divides the step acts (the step itself, not its
//                 distance from the warm-up);
//   periodic      the one level acts if its period divides the steps since the warm-up.
// At most one level acts. Without a warm-up, every period divides step 0.
#ifndef WORKER_TRAINER_CORE_AVERAGING_SCHEDULE_H_
#define WORKER_TRAINER_CORE_AVERAGING_SCHEDULE_H_

#include <cstdint>
#include <optional>
#include <vector>

namespace paceline {

struct AveragingSchedule {
  enum class Kind { kHierarchical, kPeriodic };

  Kind kind = Kind::kHierarchical;
  std::vector<int64_t> periods;  // By level, each > 0. One for kPeriodic. May be empty.
  int64_t warmup_steps = 0;

  // Index of the level that acts after this step, if any.
  std::optional<int> LevelAt(int64_t step) const;

  // Whether the last level would act after this step if the warm-up had passed.
  bool IsBoundary(int64_t step) const;

 private:
  bool Divides(int64_t period, int64_t step) const;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_AVERAGING_SCHEDULE_H_
