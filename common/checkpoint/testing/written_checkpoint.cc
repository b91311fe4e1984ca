#include "common/checkpoint/testing/written_checkpoint.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/atomic_file/atomic_file.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/mapped_file/mapped_file.h"

namespace paceline {
namespace {

int64_t RowsOf(const Safetensor& tensor) { return tensor.shape.empty() ? 1 : tensor.shape[0]; }

// A rank's rows and the slice for them, except its place.
struct Piece {
  Safetensor rows;
  ManifestTensor tensor;
};

std::vector<Piece> PiecesOf(const std::vector<Safetensor>& tensors, int rank, int ranks) {
  std::vector<Piece> pieces;
  for (const Safetensor& tensor : tensors) {
    const int64_t rows = RowsOf(tensor);
    const int64_t first = rows * rank / ranks;
    const int64_t count = rows * (rank + 1) / ranks - first;
    if (count == 0) continue;
    Piece piece{tensor, {tensor.name, tensor.dtype, tensor.shape, {}}};
    const int64_t row_bytes = RowBytes(piece.tensor);
    if (!tensor.shape.empty()) piece.rows.shape[0] = count;
    piece.rows.bytes = tensor.bytes.substr(static_cast<size_t>(first * row_bytes),
                                           static_cast<size_t>(count * row_bytes));
    TensorSlice slice;
    slice.first_row = first;
    slice.rows = count;
    slice.bytes = count * row_bytes;
    slice.checksum = ChecksumOf(piece.rows.bytes);
    piece.tensor.slices.push_back(slice);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

// Writes a rank's shard; returns its part.
absl::StatusOr<Manifest> WritePart(const std::string& directory, const Manifest& head,
                                   const std::vector<Safetensor>& tensors, int rank) {
  std::vector<Piece> pieces = PiecesOf(tensors, rank, head.ranks);
  std::vector<Safetensor> rows;
  for (const Piece& piece : pieces) rows.push_back(piece.rows);
  const std::string name = ShardName(rank, head.ranks);
  const std::string path = absl::StrCat(directory, "/", name);
  PACELINE_RETURN_IF_ERROR(WriteSafetensors(path, rows));
  PACELINE_ASSIGN_OR_RETURN(const MappedFile file,
                            MappedFile::Open(path, MappedFile::Access::kRead));
  const absl::string_view contents(static_cast<const char*>(file.data()), file.size());
  PACELINE_ASSIGN_OR_RETURN(const std::vector<Safetensor> written, ParseSafetensors(contents));
  Manifest part = head;
  part.files = {{name, static_cast<int64_t>(file.size())}};
  for (Piece& piece : pieces) {
    for (const Safetensor& entry : written) {
      if (entry.name != piece.tensor.name) continue;
      piece.tensor.slices[0].file = name;
      piece.tensor.slices[0].offset = entry.bytes.data() - contents.data();
    }
    part.tensors.push_back(std::move(piece.tensor));
  }
  return part;
}

}  // namespace

Manifest ExampleManifest(int64_t step, int64_t generation) {
  Manifest manifest;
  manifest.paceline_version = "0.1.0";
  manifest.torch_version = "2.11.0";
  manifest.created = 1'700'000'000;
  manifest.job_id = "job-1";
  manifest.generation = generation;
  manifest.step = step;
  manifest.ranks = 2;
  manifest.plan_epoch = 1;
  manifest.ladder = "1:2";
  manifest.data_offset = step * 20;
  manifest.job_spec = R"({"name":"digits","ranks":2})";
  return manifest;
}

absl::StatusOr<Manifest> WriteCheckpoint(const std::string& directory, const Manifest& head,
                                         const std::vector<Safetensor>& tensors) {
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  std::vector<Manifest> parts;
  for (int rank = 0; rank < head.ranks; ++rank) {
    PACELINE_ASSIGN_OR_RETURN(Manifest part, WritePart(directory, head, tensors, rank));
    parts.push_back(std::move(part));
  }
  PACELINE_ASSIGN_OR_RETURN(Manifest manifest, MergeManifests(std::move(parts)));
  PACELINE_RETURN_IF_ERROR(
      WriteFileAtomically(absl::StrCat(directory, "/", kManifestName), {FormatManifest(manifest)}));
  return manifest;
}

absl::StatusOr<Manifest> WriteExampleCheckpoint(const std::string& directory, int64_t step,
                                                int64_t generation) {
  std::string bytes;
  for (int i = 0; i < 120; ++i) bytes.push_back(static_cast<char>(i));
  const absl::string_view all = bytes;
  return WriteCheckpoint(directory, ExampleManifest(step, generation),
                         {{"model/fc.weight", "F32", {5, 6}, all},
                          {"model/batches", "I64", {}, all.substr(0, 8)},
                          {"optimizer/momentum/fc.bias", "BF16", {3}, all.substr(0, 6)}});
}

}  // namespace paceline
