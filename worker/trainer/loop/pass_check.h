// Whether a model can train on the passes of a job: on as many samples for each rank as a whole
// pass has, and as what is left over at the end of an epoch.
#ifndef WORKER_TRAINER_LOOP_PASS_CHECK_H_
#define WORKER_TRAINER_LOOP_PASS_CHECK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "worker/trainer/config.h"
#include "worker/trainer/model/model.h"

namespace paceline {

// With the ranks that the job has, and with each other number of them that it may have later.
// `samples`: of the training data. InvalidArgument says with which it cannot. What is left over is
// that of epochs which one number of ranks makes whole.
absl::Status CheckPasses(const Model& model, const TrainerConfig& config, int64_t samples);

// InvalidArgument when it cannot train on the last pass of an epoch, in which all ranks together
// have `rest` of the `samples`. Requires: rest >= 1.
absl::Status CheckLastPass(const Model& model, int64_t rest, int64_t samples, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_PASS_CHECK_H_
