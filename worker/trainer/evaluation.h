// How good the model is on the evaluation data, over all ranks.
#ifndef WORKER_TRAINER_EVALUATION_H_
#define WORKER_TRAINER_EVALUATION_H_

#include "common/image_shard/image_shard.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"
#include "worker/trainer/control.h"
#include "worker/trainer/data/image_batches.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// Collective: each rank takes every world_size-th image, and each image is counted once,
// however many ranks there are. The running statistics used are those of rank 0, which all
// ranks have afterwards. `step` is copied into the result, which is the same on every rank.
EvaluationResult Evaluate(const TrainerConfig& config, const ImageShard& data,
                          ImageBatches& batches, Model& model, Group& group, int64_t step);

}  // namespace paceline

#endif  // WORKER_TRAINER_EVALUATION_H_
