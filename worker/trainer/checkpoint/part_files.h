// The small files of a checkpoint being saved: each rank's part of the manifest, and the manifest
// that rank 0 merges from them.
#ifndef WORKER_TRAINER_CHECKPOINT_PART_FILES_H_
#define WORKER_TRAINER_CHECKPOINT_PART_FILES_H_

#include <string>

#include "absl/status/status.h"
#include "common/checkpoint/manifest.h"

namespace paceline {

// Makes the part durable, and with it all names in the directory. On an error (file_error.h) there
// is no part.
absl::Status WritePart(const std::string& directory, int rank, const Manifest& part);

// Writes the manifest, which completes the checkpoint, and removes the parts. OK if that was done
// before. DataLoss when the parts of `ranks` ranks and the shards do not form a checkpoint;
// otherwise errors of file_error.h.
absl::Status CommitParts(const std::string& directory, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_PART_FILES_H_
