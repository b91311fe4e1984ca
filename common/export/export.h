// The model of a checkpoint for other programs: as one safetensors file, or as a directory in
// the layout that Hugging Face's transformers reads.
//
// Whatever is read is compared with its checksum. On an error nothing is left behind: a file is
// there whole or not at all, and a directory as it was.
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
  FloatFormat floats = FloatFormat::kFp32;  // What becomes of fp32; others stay as they are.
  int64_t max_file_bytes = 5'000'000'000;   // Of tensors in one file of a directory.
  std::function<void(int64_t done, int64_t all)> on_progress;  // Bytes; may be empty.
  std::function<bool()> is_cancelled;  // True ends it with Cancelled; may be empty.
};

struct ExportResult {
  int64_t tensors = 0;
  int64_t bytes = 0;               // Of the tensors.
  std::vector<std::string> files;  // Paths, in the order of writing.
};

// What the checkpoint's job was. DataLoss when the manifest's is none.
absl::StatusOr<v1::JobSpec> SpecOf(const Manifest& manifest);

// Writes parameters and buffers under the model's own names; a file that is there is replaced.
// Errors as WriteModelFile; NotFound when there is no directory for it; InvalidArgument when the
// checkpoint holds no model, or `path` is a directory.
absl::StatusOr<ExportResult> ExportFile(const CheckpointFiles& checkpoint, const std::string& path,
                                        const ExportOptions& options);

// Writes config.json and model.safetensors, or, above max_file_bytes,
// model-00001-of-0000N.safetensors and so on with model.safetensors.index.json, into a directory
// that is empty or missing (its parent is there). Errors as ExportFile; InvalidArgument when the
// model is no llama; AlreadyExists when the directory holds something.
absl::StatusOr<ExportResult> ExportHuggingFace(const CheckpointFiles& checkpoint,
                                               const std::string& directory,
                                               const ExportOptions& options);

}  // namespace paceline

#endif  // COMMON_EXPORT_EXPORT_H_
