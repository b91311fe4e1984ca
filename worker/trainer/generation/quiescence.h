// What all ranks do together while none makes a step, whatever the strategy: evaluate, and end the
// training.
//
// Collective over all ranks. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_GENERATION_QUIESCENCE_H_
#define WORKER_TRAINER_GENERATION_QUIESCENCE_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/loop/training.h"

namespace paceline {

// Throws CollectiveError when the generation is over.
void CheckGeneration(const TrainingParts& parts);

// Evaluates after `steps_done` steps, unless the job has no evaluation or `state` says that it was
// done before. True if it was done now. DataLoss: the data could not be read.
absl::StatusOr<bool> EvaluateAfter(const TrainingParts& parts, int64_t steps_done);

// Call when all steps are done and reported. Exports this rank's parameters, evaluates, writes the
// final weights, and returns when saves are durable. `make_equal` makes all ranks' parameters
// equal; `save` makes the final save, of equal ranks.
//
// If the job has a checkpoint directory, a write that fails for a temporary reason is repeated
// until kHoldPatience has passed (common/core/hold_pause.h); all ranks keep their state meanwhile.
// An order that names a directory and arrives meanwhile redirects all of it there
// (Saver::SaveElsewhere). Internal: writing failed to the end. InvalidArgument: there is a NaN.
// Unavailable: a rank was asked to stop before all was written.
absl::Status EndTraining(const TrainingParts& parts, const std::function<void()>& make_equal,
                         const std::function<void()>& save);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_QUIESCENCE_H_
