// What a checkpoint consists of: the contents of its manifest.json (docs/checkpoint-format.md).
//
// Each tensor is cut along its first dimension into slices, each of which is one entry of a
// shard, a safetensors file. While a checkpoint is being written, each rank leaves a manifest of
// its own slices beside its shard (`part`); merged, they are the checkpoint's manifest, whose
// presence makes the checkpoint complete.
//
// The file is JSON. Its first line holds a checksum of all the bytes after that line.
#ifndef COMMON_CHECKPOINT_MANIFEST_H_
#define COMMON_CHECKPOINT_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace paceline {

inline constexpr int kManifestVersion = 1;

// No manifest is larger, that of a part neither: it has room for some 400,000 slices.
inline constexpr size_t kMaxManifestBytes = size_t{64} << 20;

// Consecutive rows of a tensor, in one entry of a shard. A tensor without dimensions is one row.
struct TensorSlice {
  std::string file;  // Name of the shard in the checkpoint's directory.
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t offset = 0;  // Of the first byte, from the start of the file.
  int64_t bytes = 0;
  uint64_t checksum = 0;  // Of the bytes (checksum.h).
};

struct ManifestTensor {
  std::string name;                 // "model/fc.weight"; in a shard too.
  std::string dtype;                // As in safetensors: "F32".
  std::vector<int64_t> shape;       // Of the whole tensor.
  std::vector<TensorSlice> slices;  // By first_row, without gaps; of a part: some of them.
};

struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
};

struct Manifest {
  int version = kManifestVersion;
  std::string paceline_version;
  std::string torch_version;
  int64_t created = 0;  // Unix seconds, by the clock of the node that wrote it.

  std::string job_id;
  int64_t generation = 0;
  int64_t step = 0;  // Steps completed.
  int ranks = 0;     // That saved it.
  int64_t plan_epoch = 0;
  std::string ladder;      // For people and for comparison: "2:2,8:8".
  int64_t data_epoch = 0;  // Position in the data (worker/trainer/core/sampler.h).
  int64_t data_offset = 0;
  std::string job_spec;  // A JSON object: paceline.v1.JobSpec, as protobuf writes it.

  std::vector<ManifestFile> files;      // By name.
  std::vector<ManifestTensor> tensors;  // By name.
};

// Bytes of the whole tensor, and of one row of it; negative when 63 bits cannot hold them.
int64_t TensorBytes(const ManifestTensor& tensor);
int64_t RowBytes(const ManifestTensor& tensor);

// The file's contents. Text that is not UTF-8 is mended; a job_spec that is no object becomes {}.
std::string FormatManifest(const Manifest& manifest);

// DataLoss, with the place, when it is damaged or contradicts itself (a slice outside its file or
// its tensor, names that are paths, sizes that overflow, a checksum that differs); Unimplemented
// when it is of a newer version. Never allocates more than a small multiple of `contents`.
absl::StatusOr<Manifest> ParseManifest(absl::string_view contents);

// The manifest, or part, in a file, which may change meanwhile. `bytes`, if given: of the file.
// Errors as of ParseManifest, NotFound, and those of common/foreign_dir.h; they name the file, and
// its size when that is beyond kMaxManifestBytes.
absl::StatusOr<Manifest> ReadManifest(const std::string& path, int64_t* bytes = nullptr);

// All slices of all ranks in one, from one part of each. Versions are those of the first part,
// `created` is the latest. DataLoss, naming tensor or field, when the parts are not of one
// checkpoint or do not cover each tensor exactly once.
absl::StatusOr<Manifest> MergeManifests(const std::vector<Manifest>& parts);

// Whether each tensor is covered exactly once: DataLoss as above.
absl::Status CheckComplete(const Manifest& manifest);

}  // namespace paceline

#endif  // COMMON_CHECKPOINT_MANIFEST_H_
