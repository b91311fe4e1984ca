// Which of a job's checkpoints are kept.
//
// Kept are: the newest `keep_latest` complete ones (0: all), those whose step `keep_every`
// divides, pinned ones, those that a job starts from, and always the newest complete one. Damaged
// ones, and those that a person had put elsewhere, do not count and are removed by hand only.
#ifndef CONTROLLER_CORE_CHECKPOINT_RETENTION_H_
#define CONTROLLER_CORE_CHECKPOINT_RETENTION_H_

#include <functional>
#include <vector>

#include "controller/core/checkpoint/checkpoint.h"

namespace paceline {

// Those to be removed, newest first. `records` is ordered as in JobCheckpoints; `in_use` tells
// whether a job starts from one, and is asked only about those that nothing else keeps.
std::vector<CheckpointKey> FindSurplus(const std::vector<Checkpoint>& records,
                                       const CheckpointPolicy& policy,
                                       const std::function<bool(const CheckpointKey&)>& in_use);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_RETENTION_H_
