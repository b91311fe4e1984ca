// A rank's data loading, and a trial step that prepares for real ones.
#ifndef WORKER_TRAINER_LOOP_DRY_STEP_H_
#define WORKER_TRAINER_LOOP_DRY_STEP_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/data/batch_loader.h"
#include "worker/trainer/data/dataset.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// Loader options for this member's batches from `start` on.
BatchLoader::Options LoaderOptions(const TrainerConfig& config, const Member& member,
                                   const Dataset& data, const DataPosition& start,
                                   c10::Device device);

// Makes one forward and backward pass without consequences, on the first batch from `position` on.
// Returns the order in which gradients become ready; libraries do their first-use setup.
absl::StatusOr<std::vector<int64_t>> TrainDry(const TrainerConfig& config, const Dataset& data,
                                              Model& model, const DataPosition& position);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_DRY_STEP_H_
