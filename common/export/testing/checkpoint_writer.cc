#include "common/export/testing/checkpoint_writer.h"

#include <filesystem>
#include <fstream>
#include <map>
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

// The rows of each tensor in the shard of `rank`.
std::vector<Safetensor> EntriesOf(const std::vector<TensorToStore>& tensors, int rank, int ranks) {
  std::vector<Safetensor> entries;
  for (const TensorToStore& tensor : tensors) {
    const int64_t rows = RowsOf(tensor);
    const int64_t begin = rows * rank / ranks;
    const int64_t end = rows * (rank + 1) / ranks;
    if (begin == end) continue;
    std::vector<int64_t> shape = tensor.shape;
    if (!shape.empty()) shape[0] = end - begin;
    const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(rows);
    entries.push_back({tensor.name, tensor.dtype, shape,
                       absl::string_view(tensor.bytes)
                           .substr(static_cast<size_t>(begin) * row_bytes,
                                   static_cast<size_t>(end - begin) * row_bytes)});
  }
  return entries;
}

std::string ContentsOf(const std::string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
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
  std::map<std::string, ManifestTensor> stored;
  for (const TensorToStore& tensor : tensors) {
    stored[tensor.name] = {tensor.name, tensor.dtype, tensor.shape, {}};
  }
  for (int rank = 0; rank < manifest.ranks; ++rank) {
    const std::string file = ShardName(rank, manifest.ranks);
    const std::string path = absl::StrCat(directory, "/", file);
    PACELINE_CHECK(WriteSafetensors(path, EntriesOf(tensors, rank, manifest.ranks)).ok());
    const std::string contents = ContentsOf(path);
    manifest.files.push_back({file, static_cast<int64_t>(contents.size())});
    const auto entries = ParseSafetensors(contents);
    PACELINE_CHECK(entries.ok());
    for (const Safetensor& entry : *entries) {
      ManifestTensor& tensor = stored[entry.name];
      const int64_t first =
          tensor.slices.empty() ? 0 : tensor.slices.back().first_row + tensor.slices.back().rows;
      tensor.slices.push_back({file, first, entry.shape.empty() ? 1 : entry.shape[0],
                               entry.bytes.data() - contents.data(),
                               static_cast<int64_t>(entry.bytes.size()), ChecksumOf(entry.bytes)});
    }
  }
  manifest.tensors.clear();
  for (auto& [name, tensor] : stored) manifest.tensors.push_back(std::move(tensor));
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  PACELINE_CHECK(WriteFileAtomically(path, {FormatManifest(manifest)}).ok());
}

void DamageSlice(const std::string& directory, const std::string& tensor, size_t slice) {
  const absl::StatusOr<Manifest> manifest =
      ParseManifest(ContentsOf(absl::StrCat(directory, "/", kManifestName)));
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
