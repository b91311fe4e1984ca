// Writes a complete checkpoint to disk, for tests of readers.
#ifndef COMMON_CHECKPOINT_TESTING_WRITTEN_CHECKPOINT_H_
#define COMMON_CHECKPOINT_TESTING_WRITTEN_CHECKPOINT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "common/safetensors/safetensors.h"

namespace paceline {

// A manifest of 2 ranks and job "job-1", with a spec and versions.
Manifest ExampleManifest(int64_t step, int64_t generation);

// Writes whole `tensors` into `directory`, which it creates. `head` is the manifest without files
// and tensors. Each rank gets about the same number of rows of each tensor. Returns the manifest.
absl::StatusOr<Manifest> WriteCheckpoint(const std::string& directory, const Manifest& head,
                                         const std::vector<Safetensor>& tensors);

// Writes a small matrix of 5 rows, a scalar and a vector, of three types, as above.
absl::StatusOr<Manifest> WriteExampleCheckpoint(const std::string& directory, int64_t step,
                                                int64_t generation);

}  // namespace paceline

#endif  // COMMON_CHECKPOINT_TESTING_WRITTEN_CHECKPOINT_H_
