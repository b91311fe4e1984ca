// Finding one's way among the checkpoints of a job.
#ifndef CONTROLLER_CORE_CHECKPOINT_JOB_CHECKPOINTS_H_
#define CONTROLLER_CORE_CHECKPOINT_JOB_CHECKPOINTS_H_

#include <string>

#include "absl/time/time.h"
#include "controller/core/job/job.h"

namespace paceline {

// Whether the job has a checkpoint directory.
bool SavesCheckpoints(const JobRequest& request);

// <checkpoint.directory>/<job id>. Requires: SavesCheckpoints.
std::string JobDirectory(const JobRequest& request);
// `base`: as Checkpoint.
std::string DirectoryOf(const Job& job, const CheckpointKey& key, const std::string& base);
std::string DirectoryOf(const Job& job, const Checkpoint& checkpoint);

// Where an order saves: the base of its checkpoint.
std::string BaseOf(const Job& job, int64_t order);

// The one that was made last among the complete ones of generation `since` and later; null if
// there is none. Pointers here are valid until the records change.
const Checkpoint* NewestComplete(const Job& job, Generation since = Generation(0));

// "Its checkpoints cannot be saved (the newest is of step 40, 1h3m old): no space left": of a job
// that goes on and whose latest save has failed, so that a failure would cost it all steps since;
// empty otherwise. `now`: wall.
std::string SaveTrouble(const Job& job, absl::Time now);

Checkpoint* FindCheckpoint(Job& job, const CheckpointKey& key);
const Checkpoint* FindCheckpoint(const Job& job, const CheckpointKey& key);
// Of the job's own, by its directory.
Checkpoint* FindByDirectory(Job& job, const std::string& directory);
const Checkpoint* FindByDirectory(const Job& job, const std::string& directory);

// Puts it where its age belongs. Requires: its key is new.
void AddCheckpoint(Job& job, Checkpoint checkpoint);
void DropCheckpoint(Job& job, const CheckpointKey& key);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_JOB_CHECKPOINTS_H_
