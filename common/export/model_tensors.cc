#include "common/export/model_tensors.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/strip.h"
#include "common/atomic_file/atomic_file.h"
#include "common/core/slice.h"
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

// Writes the bytes of a tensor, piece by piece.
class TensorOutput {
 public:
  TensorOutput(const ModelTensor& tensor, AtomicFile& file, const OnWritten& on_written)
      : format_(FormatOf(tensor)), file_(file), on_written_(on_written) {}

  absl::Status Append(absl::string_view bytes) {
    while (!bytes.empty()) {
      const absl::string_view taken = bytes.substr(0, kPieceBytes);
      bytes.remove_prefix(taken.size());
      piece_.clear();
      AppendConverted(taken, format_, &piece_);
      PACELINE_RETURN_IF_ERROR(file_.Append(piece_));
      PACELINE_RETURN_IF_ERROR(on_written_(static_cast<int64_t>(piece_.size())));
    }
    return absl::OkStatus();
  }

 private:
  const FloatFormat format_;
  AtomicFile& file_;
  const OnWritten& on_written_;
  std::string piece_;
};

// Copies what the slice has of the rows in `target` to `to`.
void CopyRows(const CheckpointFiles& files, const ManifestTensor& tensor, const TensorSlice& slice,
              const Box& target, char* to) {
  const Box source = BoxOf(tensor, slice);
  const std::optional<Box> part = Intersection(source, target);
  if (!part.has_value()) return;
  const char* const from = files.Bytes(slice).data();
  const int64_t element = SafetensorsElementBytes(tensor.dtype);
  for (RunWalk walk(*part, source, target); !walk.done(); walk.Advance()) {
    std::memcpy(to + walk.to() * element, from + walk.from() * element,
                static_cast<size_t>(walk.elements() * element));
  }
}

// Of a tensor with slices that are no whole rows.
absl::Status AppendBoxes(const CheckpointFiles& files, const ManifestTensor& tensor,
                         TensorOutput& output) {
  for (const TensorSlice& slice : tensor.slices) {
    PACELINE_RETURN_IF_ERROR(files.Verify(tensor, slice));
  }
  const int64_t row_bytes = RowBytes(tensor);
  const int64_t at_once = std::max<int64_t>(1, static_cast<int64_t>(kPieceBytes) / row_bytes);
  Box rows = WholeBox(tensor.shape);
  std::string buffer;
  for (int64_t first = 0; first < tensor.shape[0]; first += at_once) {
    rows.offsets[0] = first;
    rows.sizes[0] = std::min(at_once, tensor.shape[0] - first);
    buffer.resize(static_cast<size_t>(rows.sizes[0] * row_bytes));
    for (const TensorSlice& slice : tensor.slices) {
      CopyRows(files, tensor, slice, rows, buffer.data());
    }
    PACELINE_RETURN_IF_ERROR(output.Append(buffer));
  }
  return absl::OkStatus();
}

absl::Status AppendTensor(const CheckpointFiles& files, const ManifestTensor& tensor,
                          TensorOutput& output) {
  const bool rows = std::all_of(tensor.slices.begin(), tensor.slices.end(),
                                [](const TensorSlice& slice) { return slice.is_rows(); });
  if (!rows) return AppendBoxes(files, tensor, output);
  for (const TensorSlice& slice : tensor.slices) {
    PACELINE_RETURN_IF_ERROR(files.Verify(tensor, slice));
    PACELINE_RETURN_IF_ERROR(output.Append(files.Bytes(slice)));
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
    TensorOutput output(tensor, file, on_written);
    PACELINE_RETURN_IF_ERROR(AppendTensor(files, *tensor.stored, output));
  }
  return file.Commit();
}

}  // namespace paceline
