// Reads a checkpoint's tensors into this process, whichever ranks saved them.
//
// Each byte is read once, directly or through a small buffer, and its checksum is computed on the
// way. So memory holds only the one wanted copy, but where parts of rows go to a device or are
// converted: then also that slice.
//
// A target may be a slice of a tensor, cut in any way. Then only what it needs is read, and of a
// slice that it needs a part of, the checksum, which is of the whole, is not compared.
//
// Thread-compatible.
#ifndef WORKER_TRAINER_CHECKPOINT_STATE_READER_H_
#define WORKER_TRAINER_CHECKPOINT_STATE_READER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/core/slice.h"

namespace paceline {

// A tensor of the checkpoint and its destination: contiguous, of the same shape, on any device.
// Other floating-point types are converted.
struct ReadTarget {
  std::string name;
  at::Tensor tensor;
  std::optional<Slice> slice = {};  // Where `tensor` is one of the checkpoint's tensor.
};

// The processes of this machine that read the same checkpoint at the same time. Each begins with
// another part of it, so that what one takes from the disk the others find in the page cache.
struct Readers {
  int index = 0;  // This process, 0-based.
  int count = 1;
};

class StateReader {
 public:
  // Errors as for CheckpointFiles::Open. `threads` (at least 1) read in parallel.
  static absl::StatusOr<StateReader> Open(const std::string& directory, int threads,
                                          const Readers& readers = {});

  const CheckpointFiles& files() const { return files_; }
  const Manifest& manifest() const { return files_.manifest(); }

  // InvalidArgument, listing all problems, when a target is missing or has another shape or type;
  // nothing has changed then. DataLoss, naming file, tensor and offset, when bytes are damaged; the
  // targets are then invalid.
  absl::Status Read(const std::vector<ReadTarget>& targets);

  // Total so far, and of it what was not compared with a checksum.
  int64_t bytes_read() const { return bytes_read_; }
  int64_t bytes_unverified() const { return bytes_unverified_; }

 private:
  StateReader(CheckpointFiles files, int threads, const Readers& readers);

  CheckpointFiles files_;
  int threads_;
  Readers readers_;
  int64_t bytes_read_ = 0;
  int64_t bytes_unverified_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_CHECKPOINT_STATE_READER_H_
