// Which of a job's checkpoints are kept.
//
// These are kept: the newest `keep_latest` complete ones (0: all), those whose step is a multiple
// of `keep_every`, pinned ones, those that a job starts from, and always the newest complete one.
// Damaged ones, and those that a person saved elsewhere, are not counted and only removed by hand.
#ifndef CONTROLLER_CORE_CHECKPOINT_RETENTION_H_
#define CONTROLLER_CORE_CHECKPOINT_RETENTION_H_

#include <functional>
#include <vector>

#include "controller/core/checkpoint/checkpoint.h"

namespace paceline {

// The checkpoints to remove, newest first. `records` is ordered as in JobCheckpoints. `in_use` says
// whether a job starts from one; it is asked only about those that nothing else keeps.
std::vector<CheckpointKey> FindSurplus(const std::vector<Checkpoint>& records,
                                       const CheckpointPolicy& policy,
                                       const std::function<bool(const CheckpointKey&)>& in_use);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_RETENTION_H_
