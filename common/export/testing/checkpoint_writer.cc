#include "common/export/testing/checkpoint_writer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/atomic_file/atomic_file.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checksum.h"
#include "common/log.h"
#include "common/safetensors/safetensors.h"

namespace paceline {
namespace {

int64_t RowsOf(const TensorToStore& tensor) { return tensor.shape.empty() ? 1 : tensor.shape[0]; }

// The rows of `tensor` that are in the shard of `rank`.
std::pair<int64_t, int64_t> Share(const TensorToStore& tensor, int rank, int ranks) {
  const int64_t rows = RowsOf(tensor);
  return {rows * rank / ranks, rows * (rank + 1) / ranks};
}

}  // namespace

TensorToStore FloatsToStore(const std::string& name, const std::vector<int64_t>& shape,
                            const std::vector<float>& values) {
  return {name,
          "F32",
          shape,
          {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}};
}

void WriteCheckpoint(const std::string& directory, Manifest manifest,
                     const std::vector<TensorToStore>& tensors) {
  std::filesystem::create_directories(directory);
  manifest.files.clear();
  manifest.tensors.clear();
  for (const TensorToStore& tensor : tensors) {
    manifest.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  }
  for (int rank = 0; rank < manifest.ranks; ++rank) {
    const std::string file = ShardName(rank, manifest.ranks);
    std::vector<Safetensor> entries;
    int64_t data_bytes = 0;
    for (const TensorToStore& tensor : tensors) {
      const auto [begin, end] = Share(tensor, rank, manifest.ranks);
      if (begin == end) continue;
      std::vector<int64_t> shape = tensor.shape;
      if (!shape.empty()) shape[0] = end - begin;
      const auto row_bytes = static_cast<int64_t>(tensor.bytes.size()) / RowsOf(tensor);
      entries.push_back({tensor.name, tensor.dtype, shape,
                         absl::string_view(tensor.bytes)
                             .substr(static_cast<size_t>(begin * row_bytes),
                                     static_cast<size_t>((end - begin) * row_bytes))});
      data_bytes += static_cast<int64_t>(entries.back().bytes.size());
    }
    const std::string path = absl::StrCat(directory, "/", file);
    PACELINE_CHECK(WriteSafetensors(path, entries).ok());
    const auto file_bytes = static_cast<int64_t>(std::filesystem::file_size(path));
    manifest.files.push_back({file, file_bytes});
    int64_t offset = file_bytes - data_bytes;
    size_t entry = 0;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto [begin, end] = Share(tensors[i], rank, manifest.ranks);
      if (begin == end) continue;
      const absl::string_view bytes = entries[entry++].bytes;
      manifest.tensors[i].slices.push_back({file, begin, end - begin, offset,
                                            static_cast<int64_t>(bytes.size()), ChecksumOf(bytes)});
      offset += static_cast<int64_t>(bytes.size());
    }
  }
  std::sort(manifest.tensors.begin(), manifest.tensors.end(),
            [](const ManifestTensor& a, const ManifestTensor& b) { return a.name < b.name; });
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  PACELINE_CHECK(WriteFileAtomically(path, {FormatManifest(manifest)}).ok());
}

void DamageSlice(const std::string& directory, const std::string& tensor, size_t slice) {
  std::ifstream in(absl::StrCat(directory, "/", kManifestName));
  std::stringstream text;
  text << in.rdbuf();
  const absl::StatusOr<Manifest> manifest = ParseManifest(text.str());
  PACELINE_CHECK(manifest.ok());
  for (const ManifestTensor& stored : manifest->tensors) {
    if (stored.name != tensor) continue;
    const TensorSlice& damaged = stored.slices.at(slice);
    std::fstream file(absl::StrCat(directory, "/", damaged.file),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(damaged.offset);
    const int byte = file.get();
    file.seekp(damaged.offset);
    file.put(static_cast<char>(byte ^ 1));
  }
}

}  // namespace paceline
