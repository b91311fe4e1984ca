#include "common/export/model_tensors.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/strip.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/status_macros.h"
#include "common/safetensors/safetensors.h"

namespace paceline {
namespace {

constexpr char kModelPrefix[] = "model/";
constexpr size_t kPieceBytes = 1 << 20;
constexpr size_t kAlignment = 64;  // A cache line.

FloatFormat FormatOf(const ModelTensor& tensor) {
  if (tensor.dtype == tensor.stored->dtype) return FloatFormat::kFp32;
  return tensor.dtype == DtypeOf(FloatFormat::kBf16) ? FloatFormat::kBf16 : FloatFormat::kFp16;
}

absl::Status AppendTensor(const CheckpointFiles& files, const ModelTensor& tensor, AtomicFile& file,
                          const OnWritten& on_written) {
  const FloatFormat format = FormatOf(tensor);
  std::string piece;
  for (const TensorSlice& slice : tensor.stored->slices) {
    PACELINE_RETURN_IF_ERROR(files.Verify(*tensor.stored, slice));
    absl::string_view left = files.Bytes(slice);
    while (!left.empty()) {
      const absl::string_view taken = left.substr(0, kPieceBytes);
      left.remove_prefix(taken.size());
      piece.clear();
      AppendConverted(taken, format, &piece);
      PACELINE_RETURN_IF_ERROR(file.Append(piece));
      PACELINE_RETURN_IF_ERROR(on_written(static_cast<int64_t>(piece.size())));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<ModelTensor> ModelTensors(const Manifest& manifest, FloatFormat floats) {
  std::vector<ModelTensor> tensors;
  for (const ManifestTensor& stored : manifest.tensors) {
    absl::string_view name = stored.name;
    if (!absl::ConsumePrefix(&name, kModelPrefix)) continue;
    ModelTensor tensor;
    tensor.name = std::string(name);
    tensor.stored = &stored;
    const bool converted = stored.dtype == DtypeOf(FloatFormat::kFp32);
    tensor.dtype = converted ? DtypeOf(floats) : stored.dtype;
    tensor.bytes = TensorBytes(stored) / SafetensorsElementBytes(stored.dtype) *
                   SafetensorsElementBytes(tensor.dtype);
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

absl::Status WriteModelFile(const CheckpointFiles& files, std::vector<ModelTensor> tensors,
                            const std::string& path, const OnWritten& on_written) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const ModelTensor& a, const ModelTensor& b) {
    return SafetensorsElementBytes(a.dtype) > SafetensorsElementBytes(b.dtype);
  });
  std::vector<Safetensor> entries;
  for (const ModelTensor& tensor : tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.stored->shape, {}});
  }
  PACELINE_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(entries, kAlignment));
  PACELINE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  PACELINE_RETURN_IF_ERROR(file.Append(header));
  for (const ModelTensor& tensor : tensors) {
    PACELINE_RETURN_IF_ERROR(AppendTensor(files, tensor, file, on_written));
  }
  return file.Commit();
}

}  // namespace paceline
