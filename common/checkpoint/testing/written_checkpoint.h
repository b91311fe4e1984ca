// A complete checkpoint on disk, for tests of what reads one.
#ifndef COMMON_CHECKPOINT_TESTING_WRITTEN_CHECKPOINT_H_
#define COMMON_CHECKPOINT_TESTING_WRITTEN_CHECKPOINT_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/checkpoint/manifest.h"
#include "common/safetensors/safetensors.h"

namespace paceline {

// Of 2 ranks, as job "job-1", with a spec and versions.
Manifest ExampleManifest(int64_t step, int64_t generation);

// Writes `tensors`, whole ones, into `directory`, which it makes: with `head` but for files and
// tensors. Each rank gets about as many rows of each. Returns what the manifest holds.
absl::StatusOr<Manifest> WriteCheckpoint(const std::string& directory, const Manifest& head,
                                         const std::vector<Safetensor>& tensors);

// A small matrix of 5 rows, a scalar and a vector, of three types, written as above.
absl::StatusOr<Manifest> WriteExampleCheckpoint(const std::string& directory, int64_t step,
                                                int64_t generation);

}  // namespace paceline

#endif  // COMMON_CHECKPOINT_TESTING_WRITTEN_CHECKPOINT_H_
