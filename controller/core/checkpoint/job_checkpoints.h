// Finds a job's checkpoints and their directories.
#ifndef CONTROLLER_CORE_CHECKPOINT_JOB_CHECKPOINTS_H_
#define CONTROLLER_CORE_CHECKPOINT_JOB_CHECKPOINTS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "controller/core/job/job.h"

namespace paceline {

bool SavesCheckpoints(const JobRequest& request);

// <checkpoint.directory>/<job id>. Requires: SavesCheckpoints.
std::string JobDirectory(const JobRequest& request);
// The checkpoint's directory. `base`: as Checkpoint::base.
std::string DirectoryOf(const Job& job, const CheckpointKey& key, const std::string& base);
std::string DirectoryOf(const Job& job, const Checkpoint& checkpoint);

// Where an order saves: the `base` of its checkpoint.
std::string BaseOf(const Job& job, int64_t order);

// The newest complete checkpoint of generation `since` or later; null if there is none. Pointers
// here are valid until the records change.
const Checkpoint* NewestComplete(const Job& job, Generation since = Generation(0));

// "Its checkpoints cannot be saved (the newest is of step 40, 1h3m old): no space left", if the job
// goes on although its latest save has failed, so that a failure would cost it all steps since;
// else empty. `now`: wall.
std::string SaveTrouble(const Job& job, absl::Time now);

Checkpoint* FindCheckpoint(Job& job, const CheckpointKey& key);
const Checkpoint* FindCheckpoint(const Job& job, const CheckpointKey& key);
// Finds one of the job's own checkpoints by its directory; null if there is none.
Checkpoint* FindByDirectory(Job& job, const std::string& directory);
const Checkpoint* FindByDirectory(const Job& job, const std::string& directory);

// A checkpoint and the job that saved it.
struct SavedBy {
  JobId job;
  CheckpointKey key;
};
// What the name of a checkpoint's directory says, <base>/<job id>/<checkpoint>, whether the job is
// known or not; nothing for any other name.
std::optional<SavedBy> ParseDirectory(absl::string_view directory);

// Inserts it in order of age. Requires: its key is new.
void AddCheckpoint(Job& job, Checkpoint checkpoint);
void DropCheckpoint(Job& job, const CheckpointKey& key);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_JOB_CHECKPOINTS_H_
