// What all ranks do together while none of them makes a step, whatever the strategy: evaluate, and
// end the training.
//
// Collective over all ranks. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_GENERATION_STANDSTILL_H_
#define WORKER_TRAINER_GENERATION_STANDSTILL_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/trainer/loop/training.h"

namespace paceline {

// Throws CollectiveError when the generation is over.
void CheckGeneration(const TrainingParts& parts);

// The evaluation after so many steps, unless the job has none or it was made before (of this the
// state tells): true when it was made now. DataLoss: the data could not be read.
absl::StatusOr<bool> EvaluateAfter(const TrainingParts& parts, int64_t steps_done);

// All steps are done and told: exports this rank's parameters, evaluates, writes the final
// weights, and returns when saves are durable. `make_equal` gives all ranks the same parameters;
// `save` makes the save at the end, of ranks that are equal.
//
// What cannot be written for a reason that may pass is written again until kHoldPatience has passed
// (common/core/hold_pause.h), if the job has a checkpoint directory; all ranks keep their state
// meanwhile. An order that names a directory and comes meanwhile has all of it written there
// (Saver::SaveElsewhere). Internal: it could not be written then either. InvalidArgument: there is
// a NaN in it. Unavailable: a rank was asked to stop before all was written.
absl::Status EndTraining(const TrainingParts& parts, const std::function<void()>& make_equal,
                         const std::function<void()>& save);

}  // namespace paceline

#endif  // WORKER_TRAINER_GENERATION_STANDSTILL_H_
