// Evaluates the model on the evaluation data, over all ranks.
#ifndef WORKER_TRAINER_LOOP_EVALUATION_H_
#define WORKER_TRAINER_LOOP_EVALUATION_H_

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

using EvaluationProgress = std::function<void(int64_t done, int64_t all)>;

// Collective over all ranks: each takes every world_size-th sample, and each sample counts once,
// however many ranks there are. Each rank uses its own parameters, and rank 0's running statistics,
// which all ranks keep. `step` is copied to the result, which is equal on all ranks. `on_progress`
// is called before each batch and after the last, with this rank's number of batches done and in
// all; an exception from it ends the evaluation. DataLoss as for Dataset::Read.
absl::StatusOr<EvaluationResult> Evaluate(const TrainerConfig& config, const Dataset& data,
                                          Model& model, Group& all, int64_t step,
                                          const EvaluationProgress& on_progress);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_EVALUATION_H_
