// Everything about one checkpoint, for people.
#ifndef CLI_VIEW_CHECKPOINT_CHECKPOINT_PAGE_H_
#define CLI_VIEW_CHECKPOINT_CHECKPOINT_PAGE_H_

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "cli/view/page.h"
#include "common/checkpoint/manifest.h"
#include "proto/checkpoint.pb.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// What is known of a checkpoint: from the controller, from its files, or both.
struct CheckpointFacts {
  std::optional<v1::Checkpoint> checkpoint;
  std::optional<Manifest> manifest;
  std::optional<v1::JobSpec> spec;  // From the manifest.
  std::string directory;
};

// The controller's facts, and from the manifest: where it is, who saved it and at which point of
// the training, tensors by group, files, job file.
std::string CheckpointPage(const CheckpointFacts& facts, absl::Time now, const PageStyle& style);

// Name, dtype, shape, size and files of every tensor.
std::string TensorTable(const Manifest& manifest, const PageStyle& style);

}  // namespace paceline

#endif  // CLI_VIEW_CHECKPOINT_CHECKPOINT_PAGE_H_
