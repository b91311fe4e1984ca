// The tensors of a checkpoint's model, and safetensors files of them.
//
// Memory stays at a few megabytes however large they are: a slice is read from the map, compared
// with its checksum, converted and written.
#ifndef COMMON_EXPORT_MODEL_TENSORS_H_
#define COMMON_EXPORT_MODEL_TENSORS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/export/float_format.h"

namespace paceline {

// One tensor as it will be in the file.
struct ModelTensor {
  std::string name;   // Without "model/".
  std::string dtype;  // fp32 as wanted; others as they are.
  int64_t bytes = 0;
  const ManifestTensor* stored;
};

// By name. `manifest` outlives them.
std::vector<ModelTensor> ModelTensors(const Manifest& manifest, FloatFormat floats);

// Called with the bytes that were written since the call before; an error ends the writing.
using OnWritten = std::function<absl::Status(int64_t bytes)>;

// Writes a file of these tensors atomically, those of large elements first, so that each is aligned
// for its elements when the file is mapped. DataLoss, as CheckpointFiles::Verify; what `on_written`
// returned; else as AtomicFile.
absl::Status WriteModelFile(const CheckpointFiles& files, std::vector<ModelTensor> tensors,
                            const std::string& path, const OnWritten& on_written);

}  // namespace paceline

#endif  // COMMON_EXPORT_MODEL_TENSORS_H_
