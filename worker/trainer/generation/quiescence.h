// What all ranks do together while none makes a step, whatever the strategy: evaluate, and end the
// training.
//
// Collective over all ranks. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_GENERATION_QUIESCENCE_H_
#define WORKER_TRAINER_GENERATION_QUIESCENCE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "worker/trainer/loop/training.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// Throws CollectiveError when the generation is over.
void CheckGeneration(const TrainingParts& parts);

// An evaluation by all ranks: each scores its share of the samples between Begin and End.
class JobEvaluation {
 public:
  // `parts` must outlive this.
  explicit JobEvaluation(const TrainingParts& parts) : parts_(parts) {}

  // Whether the job evaluates, and has not done so after `steps_done` steps.
  bool IsDue(int64_t steps_done) const;

  // Begins the evaluation after `steps_done` steps: all ranks take rank 0's running statistics.
  void Begin(int64_t steps_done);

  // Shows how many batches of this rank's share are done. Throws CollectiveError when the
  // generation is over.
  void ShowProgress(int64_t done, int64_t all);

  // Adds up the scores of all ranks' shares, and reports the result. `samples`: in this rank's
  // share.
  void End(const Score& own, int64_t samples);

  // Shows that no evaluation is under way any more, if one was cut off.
  void CutOff();

 private:
  const TrainingParts& parts_;
  int64_t steps_done_ = -1;  // Of the one under way; -1: none is.
};

// Call when all steps are done and reported. Exports this rank's parameters, of a sharded model the
// whole ones of each replica, and makes the last save. `make_equal` makes all ranks' parameters
// equal; `save` makes the final save, of equal ranks. An evaluation, if it is due, comes next, and
// then CompleteEnd. Errors as there.
absl::Status PrepareEnd(const TrainingParts& parts, const std::function<void()>& make_equal,
                        const std::function<void()>& save);

// Writes the final weights, and returns when saves are durable.
//
// If the job has a checkpoint directory, a write that fails for a temporary reason is repeated
// until kHoldPatience has passed (common/core/hold_pause.h); all ranks keep their state meanwhile.
// An order that names a directory and arrives meanwhile redirects all of it there
// (Saver::SaveElsewhere). Internal: writing failed to the end. InvalidArgument: there is a NaN.
// Unavailable: a rank was asked to stop before all was written.
absl::Status CompleteEnd(const TrainingParts& parts);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_QUIESCENCE_H_
