// Reads the configuration that the daemon sends first.
#ifndef WORKER_TRAINER_CONFIG_FROM_PROTO_H_
#define WORKER_TRAINER_CONFIG_FROM_PROTO_H_

#include "absl/status/statusor.h"
#include "proto/trainer.pb.h"
#include "worker/trainer/config.h"

namespace paceline {

// Sets missing values of the job spec to their documented defaults. InvalidArgument names every
// impossible value of the spec, or another problem.
absl::StatusOr<TrainerConfig> ConfigFromProto(const v1::TrainerConfig& proto);

}  // namespace paceline

#endif  // WORKER_TRAINER_CONFIG_FROM_PROTO_H_
