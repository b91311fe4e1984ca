// Reads the tensors of a checkpoint into those of this process, whatever ranks saved it.
//
// Each byte is read once, straight into place or by a small buffer, and its checksum computed on
// the way: memory stays at the one copy that is wanted.
//
// Thread-compatible.
#ifndef WORKER_TRAINER_CHECKPOINT_STATE_READER_H_
#define WORKER_TRAINER_CHECKPOINT_STATE_READER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_files.h"

namespace paceline {

// A tensor of the checkpoint, and what becomes its copy: on any device, contiguous, of the same
// shape; of another floating type it is converted.
struct ReadTarget {
  std::string name;
  at::Tensor tensor;
};

class StateReader {
 public:
  // Errors as CheckpointFiles::Open. `threads` read at the same time, at least 1.
  static absl::StatusOr<StateReader> Open(const std::string& directory, int threads);

  const CheckpointFiles& files() const { return files_; }
  const Manifest& manifest() const { return files_.manifest(); }

  // InvalidArgument, listing all that differ, when a target is not in the checkpoint or has
  // another shape: nothing has changed then. DataLoss, naming file, tensor and offset, when bytes
  // are damaged: the targets are worth nothing then.
  absl::Status Read(const std::vector<ReadTarget>& targets);

  // So far.
  int64_t bytes_read() const { return bytes_read_; }

 private:
  StateReader(CheckpointFiles files, int threads);

  CheckpointFiles files_;
  int threads_;
  int64_t bytes_read_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_STATE_READER_H_
