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

// Thread-safe: it never changes.
class CheckpointFiles {
 public:
  // Reads the manifest and maps the shards; their data is read when it is touched. NotFound: no
  // such directory, or one without a manifest, which is an incomplete checkpoint. DataLoss: the
  // manifest is damaged, or a shard is missing, has another size, or a header that contradicts the
  // manifest; the message names the file. Unimplemented: a newer version.
  static absl::StatusOr<CheckpointFiles> Open(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const Manifest& manifest() const { return manifest_; }
  // Of the manifest, by name; null if there is none.
  const ManifestTensor* Find(absl::string_view tensor) const;

  // Requires: a slice of this manifest. Valid as long as this.
  absl::string_view Bytes(const TensorSlice& slice) const;
  std::string PathOf(const TensorSlice& slice) const;

  // DataLoss, naming file, tensor, rows and offsets, when the slice's bytes are not those that
  // were saved.
  absl::Status Verify(const ManifestTensor& tensor, const TensorSlice& slice) const;
  // The same for bytes that were read from there by other means.
  absl::Status VerifyChecksum(const ManifestTensor& tensor, const TensorSlice& slice,
                              uint64_t checksum) const;

 private:
  CheckpointFiles() = default;

  std::string directory_;
  Manifest manifest_;
  std::map<std::string, MappedFile> files_;
};

// Reads all of a checkpoint and compares all checksums. `on_progress` is called with the bytes done
// and those of all. Returns every damage, one line each; empty when it is sound. Errors as Open,
// but for a shard that is missing or of the wrong size, which is a damage too.
absl::StatusOr<std::vector<std::string>> VerifyCheckpoint(
    const std::string& directory,
    const std::function<void(int64_t done, int64_t all)>& on_progress);

// A checkpoint that lies complete in a job's directory.
struct CompleteCheckpoint {
  std::string name;
  int64_t step = 0;
  int64_t generation = 0;
  int64_t bytes = 0;  // Of its files, the manifest included.
  int ranks = 0;
  int64_t created = 0;  // Unix seconds.
};

// Tells what lies complete in a job's directory, by step and generation; removes what generations
// up to `generation` left incomplete, and what was being removed. A manifest that cannot be read is
// left alone and not listed; `left_out`, if given, says of each why. NotFound: there is no such
// directory. Unavailable, PermissionDenied: it cannot be read. ResourceExhausted: it has too many
// entries.
absl::StatusOr<std::vector<CompleteCheckpoint>> SettleCheckpoints(
    const std::string& job_directory, int64_t generation,
    std::vector<std::string>* left_out = nullptr);

// Removes a checkpoint's directory: the manifest's place first, so that it is never half there.
// One that is missing is removed already. InvalidArgument when its name is not a checkpoint's.
absl::Status RemoveCheckpoint(const std::string& directory);

// The same, unless there is a manifest: then the checkpoint, or nothing if that is damaged.
absl::StatusOr<std::optional<CompleteCheckpoint>> RemoveIncompleteCheckpoint(
    const std::string& directory);

}  // namespace paceline

#endif  // COMMON_CHECKPOINT_CHECKPOINT_FILES_H_
