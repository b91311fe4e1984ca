// The contents of a checkpoint, as described in its manifest.json (docs/checkpoint-format.md).
//
// Each tensor is cut into slices, mostly along its first dimension; each slice is an entry of a
// shard, a safetensors file. While a checkpoint is being written, each rank leaves a manifest of
// its own slices (a part) beside its shard. Merged, the parts are the checkpoint's manifest; the
// checkpoint is complete when it is there.
//
// The file is JSON. Its first line has a checksum of all following bytes.
#ifndef COMMON_CHECKPOINT_MANIFEST_H_
#define COMMON_CHECKPOINT_MANIFEST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/core/slice.h"

namespace paceline {

inline constexpr int kManifestVersion = 2;  // The newest that is read.
// The version that slices which are no row ranges need.
inline constexpr int kBoxesVersion = 2;

// Maximum size of a manifest or part: enough for some 800,000 slices.
inline constexpr size_t kMaxManifestBytes = size_t{128} << 20;

// Consecutive rows of a tensor in one entry of a shard, or a box of its elements. A scalar is one
// row.
struct TensorSlice {
  std::string file;  // Shard's name in the checkpoint's directory.
  int64_t first_row = 0;
  int64_t rows = 0;
  int64_t offset = 0;  // Of the first byte, from the start of the file.
  int64_t bytes = 0;
  uint64_t checksum = 0;  // Of the slice's bytes (checksum.h).
  // Without dimensions for whole rows. Otherwise its first one is that of first_row and rows.
  Box box = {};

  bool is_rows() const { return box.sizes.empty(); }
};

struct ManifestTensor {
  std::string name;                 // "model/fc.weight"; also its name in a shard.
  std::string dtype;                // A safetensors dtype: "F32".
  std::vector<int64_t> shape;       // Of the whole tensor.
  std::vector<TensorSlice> slices;  // In order (IsBefore), without gaps; a part has some of them.
};

struct ManifestFile {
  std::string name;
  int64_t bytes = 0;
};

struct Manifest {
  int version = 1;  // At least; FormatManifest writes what the slices need.
  std::string paceline_version;
  std::string torch_version;
  int64_t created = 0;  // Unix seconds, by the writing node's clock.

  std::string job_id;
  int64_t generation = 0;
  int64_t step = 0;  // Steps completed.
  int ranks = 0;     // Number that saved it.
  int shards = 1;    // Of them, those of one replica of the model (common/core/lanes.h).
  int64_t plan_epoch = 0;
  std::string ladder;      // For people, and to compare: "2:2,8:8".
  int64_t data_epoch = 0;  // Position in the data (worker/trainer/core/sampler.h).
  int64_t data_offset = 0;
  std::string job_spec;  // A JSON object: paceline.v1.JobSpec in protobuf's JSON.

  std::vector<ManifestFile> files;      // Sorted by name.
  std::vector<ManifestTensor> tensors;  // Sorted by name.
};

// Bytes of the whole tensor, and of one row; negative if they exceed 63 bits.
int64_t TensorBytes(const ManifestTensor& tensor);
int64_t RowBytes(const ManifestTensor& tensor);

// The slice's elements in the whole tensor.
Box BoxOf(const ManifestTensor& tensor, const TensorSlice& slice);

// The order of a tensor's slices: by their first element. Total, since each is in another file.
bool IsBefore(const TensorSlice& a, const TensorSlice& b);

// Returns the file's contents. Repairs text that is not UTF-8; replaces an invalid job_spec by {}.
std::string FormatManifest(const Manifest& manifest);

// DataLoss, with the place, when the text is damaged or inconsistent (a slice outside its file or
// tensor, names that are paths, sizes that overflow, a wrong checksum); Unimplemented for a newer
// version. Never allocates more than a small multiple of `contents`.
absl::StatusOr<Manifest> ParseManifest(absl::string_view contents);

// Reads a manifest or part from a file, which may change meanwhile. `bytes`, if given, gets the
// file's size. Errors of ParseManifest and common/foreign_dir.h, and NotFound; they name the file,
// and its size when that exceeds kMaxManifestBytes.
absl::StatusOr<Manifest> ReadManifest(const std::string& path, int64_t* bytes = nullptr);

// Merges one part from each rank. Versions come from the first part, `created` from the latest.
// DataLoss, naming tensor or field, when the parts belong to different checkpoints or do not cover
// each tensor exactly once. Linear in the number of slices, but for sorting those of each tensor.
absl::StatusOr<Manifest> MergeManifests(std::vector<Manifest> parts);

// DataLoss as above unless each tensor is covered exactly once. Requires: a manifest from
// ParseManifest, or one that it would accept.
absl::Status CheckComplete(const Manifest& manifest);

}  // namespace paceline

#endif  // COMMON_CHECKPOINT_MANIFEST_H_
