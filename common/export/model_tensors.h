// The tensors of a checkpoint's model, and safetensors files with them.
//
// Uses a few megabytes of memory, however large the tensors are: each slice is read from the map,
// verified, converted and written. Where slices are no whole rows, the rows are put together first,
// as many as fit in a megabyte, but one at least.
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

// A tensor as it will be in the file.
struct ModelTensor {
  std::string name;   // Without "model/".
  std::string dtype;  // The format for fp32; others are unchanged.
  int64_t bytes = 0;
  const ManifestTensor* stored;
};

// Sorted by name. `manifest` must outlive them.
std::vector<ModelTensor> ModelTensors(const Manifest& manifest, FloatFormat floats);

// Gets the bytes written since the last call; an error stops the writing.
using OnWritten = std::function<absl::Status(int64_t bytes)>;

// Writes a file of these tensors atomically. Tensors with large elements come first, so that a
// mapped file has each aligned to its elements. DataLoss as for CheckpointFiles::Verify; errors of
// `on_written`; otherwise errors of AtomicFile.
absl::Status WriteModelFile(const CheckpointFiles& files, std::vector<ModelTensor> tensors,
                            const std::string& path, const OnWritten& on_written);

}  // namespace paceline

#endif  // COMMON_EXPORT_MODEL_TENSORS_H_
