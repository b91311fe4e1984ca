// Exports a checkpoint's model for other programs: as one safetensors file, or as a directory in
// the layout of Hugging Face's transformers.
//
// Verifies the checksum of everything it reads. An error leaves nothing behind: a file is complete
// or not there, and a directory is as before.
#ifndef COMMON_EXPORT_EXPORT_H_
#define COMMON_EXPORT_EXPORT_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/export/float_format.h"
#include "proto/job_spec.pb.h"

namespace paceline {

struct ExportOptions {
  FloatFormat floats = FloatFormat::kFp32;  // Format for fp32 tensors; other types stay.
  int64_t max_file_bytes = 5'000'000'000;   // Limit for the tensors in one file of a directory.
  std::function<void(int64_t done, int64_t all)> on_progress;  // In bytes; may be empty.
  std::function<bool()> is_cancelled;  // True ends the export with Cancelled; may be empty.
};

struct ExportResult {
  int64_t tensors = 0;
  int64_t bytes = 0;               // Total of the tensors.
  std::vector<std::string> files;  // Paths, in the order of writing.
};

// The spec of the checkpoint's job. DataLoss when the manifest has no valid one.
absl::StatusOr<v1::JobSpec> SpecOf(const Manifest& manifest);

// Writes parameters and buffers under the model's own names; replaces an existing file. Errors as
// for WriteModelFile; NotFound when the parent directory is missing; InvalidArgument when the
// checkpoint has no model, or `path` is a directory.
absl::StatusOr<ExportResult> ExportFile(const CheckpointFiles& checkpoint, const std::string& path,
                                        const ExportOptions& options);

// Writes config.json and model.safetensors (above max_file_bytes, model-00001-of-0000N.safetensors
// etc. with model.safetensors.index.json) into an empty or missing directory whose parent exists.
// Errors as for ExportFile; InvalidArgument when the model is no llama; AlreadyExists when the
// directory is not empty.
absl::StatusOr<ExportResult> ExportHuggingFace(const CheckpointFiles& checkpoint,
                                               const std::string& directory,
                                               const ExportOptions& options);

}  // namespace paceline

#endif  // COMMON_EXPORT_EXPORT_H_
