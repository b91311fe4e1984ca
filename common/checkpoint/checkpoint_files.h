// A complete checkpoint on disk, mapped and checked.
#ifndef COMMON_CHECKPOINT_CHECKPOINT_FILES_H_
#define COMMON_CHECKPOINT_CHECKPOINT_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/manifest.h"
#include "common/mapped_file/mapped_file.h"

namespace paceline {

// Thread-safe: immutable.
class CheckpointFiles {
 public:
  // Reads the manifest and maps the shards; their data is only read when touched. NotFound: no such
  // directory, or one without a manifest, which is an incomplete checkpoint. DataLoss, naming the
  // file: the manifest is damaged, or a shard is missing, has the wrong size, or has a header that
  // contradicts the manifest. Unimplemented: a newer version.
  static absl::StatusOr<CheckpointFiles> Open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  // Finds a tensor by name in the manifest; null if there is none.
  const ManifestTensor* Find(absl::string_view tensor) const;

  // Requires: a slice of this manifest. Valid as long as this object.
  absl::string_view Bytes(const TensorSlice& slice) const;
  std::string PathOf(const TensorSlice& slice) const;

  // DataLoss, naming file, tensor, rows and offsets, when the slice's bytes differ from those that
  // were saved.
  absl::Status Verify(const ManifestTensor& tensor, const TensorSlice& slice) const;
  // The same for bytes that the caller has read from there.
  absl::Status VerifyChecksum(const ManifestTensor& tensor, const TensorSlice& slice,
                              uint64_t checksum) const;

 private:
  CheckpointFiles() = default;

  std::string directory_;
  Manifest manifest_;
  std::map<std::string, MappedFile> files_;
};

// Reads a whole checkpoint and compares all checksums. `on_progress` gets the bytes done and in
// all. Returns all damage, one line each; empty if there is none. Errors as for Open, except that a
// missing shard or one of the wrong size counts as damage.
absl::StatusOr<std::vector<std::string>> VerifyCheckpoint(
    const std::string& directory,
    const std::function<void(int64_t done, int64_t all)>& on_progress);

// A complete checkpoint in a job's directory.
struct CompleteCheckpoint {
  std::string name;
  int64_t step = 0;
  int64_t generation = 0;
  int64_t bytes = 0;  // Of its files, including the manifest.
  int ranks = 0;
  int64_t created = 0;  // Unix seconds.
};

// Lists the complete checkpoints in a job's directory by step and generation. Removes incomplete
// ones of generations up to `generation`, and continues interrupted removals. A checkpoint with an
// unreadable manifest is left alone and not listed; `left_out`, if given, gets the reason.
// NotFound: no such directory. Unavailable, PermissionDenied: it cannot be read. ResourceExhausted:
// it has too many entries.
absl::StatusOr<std::vector<CompleteCheckpoint>> SettleCheckpoints(
    const std::string& job_directory, int64_t generation,
    std::vector<std::string>* left_out = nullptr);

// Removes a checkpoint's directory. Renames it first, so that it is never half there under its
// name. OK if it is missing. InvalidArgument when its name is not a checkpoint's.
absl::Status RemoveCheckpoint(const std::string& directory);

// Removes it only if it has no manifest. Otherwise returns it, or nothing if it is damaged.
absl::StatusOr<std::optional<CompleteCheckpoint>> RemoveIncompleteCheckpoint(
    const std::string& directory);

}  // namespace paceline

#endif  // COMMON_CHECKPOINT_CHECKPOINT_FILES_H_
