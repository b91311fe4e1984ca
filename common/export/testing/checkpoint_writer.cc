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
#include "common/core/slice.h"
#include "common/log.h"
#include "common/safetensors/safetensors.h"

namespace paceline {
namespace {

// What of a tensor is in a shard.
struct Entry {
  std::vector<int64_t> offsets;
  std::vector<int64_t> shape;
  std::string bytes;
};

Entry RowsOf(const TensorToStore& tensor, int rank, int ranks) {
  const int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0];
  const int64_t begin = rows * rank / ranks;
  const int64_t end = rows * (rank + 1) / ranks;
  const size_t row_bytes = tensor.bytes.size() / static_cast<size_t>(rows);
  Entry entry{std::vector<int64_t>(tensor.shape.size(), 0), tensor.shape,
              tensor.bytes.substr(static_cast<size_t>(begin) * row_bytes,
                                  static_cast<size_t>(end - begin) * row_bytes)};
  if (tensor.shape.empty()) return entry;
  entry.offsets[0] = begin;
  entry.shape[0] = end - begin;
  return entry;
}

Entry ColumnsOf(const TensorToStore& tensor, int rank, int ranks) {
  const int64_t columns = tensor.shape.at(1);
  const int64_t begin = columns * rank / ranks;
  const int64_t end = columns * (rank + 1) / ranks;
  const auto element = static_cast<size_t>(SafetensorsElementBytes(tensor.dtype));
  Entry entry{{0, begin}, {tensor.shape[0], end - begin}, ""};
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    entry.bytes += tensor.bytes.substr(static_cast<size_t>(row * columns + begin) * element,
                                       static_cast<size_t>(end - begin) * element);
  }
  return entry;
}

// By name, of the shard of `rank`.
std::map<std::string, Entry> EntriesOf(const std::vector<TensorToStore>& tensors, int rank,
                                       int ranks) {
  std::map<std::string, Entry> entries;
  for (const TensorToStore& tensor : tensors) {
    Entry entry = tensor.by_columns ? ColumnsOf(tensor, rank, ranks) : RowsOf(tensor, rank, ranks);
    if (!entry.bytes.empty()) entries[tensor.name] = std::move(entry);
  }
  return entries;
}

std::vector<Safetensor> SafetensorsOf(const std::vector<TensorToStore>& tensors,
                                      const std::map<std::string, Entry>& entries) {
  std::vector<Safetensor> in_file;
  for (const TensorToStore& tensor : tensors) {
    const auto entry = entries.find(tensor.name);
    if (entry == entries.end()) continue;
    in_file.push_back({tensor.name, tensor.dtype, entry->second.shape, entry->second.bytes});
  }
  return in_file;
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
    const std::map<std::string, Entry> stored_here = EntriesOf(tensors, rank, manifest.ranks);
    PACELINE_CHECK(WriteSafetensors(path, SafetensorsOf(tensors, stored_here)).ok());
    const std::string contents = ContentsOf(path);
    manifest.files.push_back({file, static_cast<int64_t>(contents.size())});
    const auto entries = ParseSafetensors(contents);
    PACELINE_CHECK(entries.ok());
    for (const Safetensor& entry : *entries) {
      ManifestTensor& tensor = stored[entry.name];
      const std::vector<int64_t>& offsets = stored_here.at(entry.name).offsets;
      TensorSlice slice{file,
                        offsets.empty() ? 0 : offsets[0],
                        entry.shape.empty() ? 1 : entry.shape[0],
                        entry.bytes.data() - contents.data(),
                        static_cast<int64_t>(entry.bytes.size()),
                        ChecksumOf(entry.bytes)};
      const Box box{offsets, entry.shape};
      if (!IsRowRange(box, tensor.shape)) slice.box = box;
      tensor.slices.push_back(std::move(slice));
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
