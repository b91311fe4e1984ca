#include "common/checkpoint/checkpoint_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "common/safetensors/safetensors.h"

namespace paceline {
namespace {

constexpr int64_t kReadBytes = 4 << 20;

// An entry of a shard, as described by the manifest.
struct Entry {
  const ManifestTensor* tensor;
  const TensorSlice* slice;
};

// Where the slice is in its tensor and in its file.
std::string PlaceText(const TensorSlice& slice) {
  const std::string elements =
      slice.is_rows()
          ? absl::StrCat("rows from ", slice.first_row, " to ", slice.first_row + slice.rows)
          : absl::StrCat("[", absl::StrJoin(slice.box.sizes, ", "), "] elements from [",
                         absl::StrJoin(slice.box.offsets, ", "), "] on");
  return absl::StrCat(elements, ", offsets from ", slice.offset, " to ",
                      slice.offset + slice.bytes);
}

absl::string_view Contents(const MappedFile& file) {
  return {static_cast<const char*>(file.data()), file.size()};
}

// Reads the manifest of a complete checkpoint.
absl::StatusOr<Manifest> ReadWholeManifest(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  absl::StatusOr<Manifest> manifest = ReadManifest(path);
  if (absl::IsNotFound(manifest.status())) {
    return absl::NotFoundError(
        absl::StrCat(directory, ": no complete checkpoint: there is no ", kManifestName, " in it"));
  }
  PACELINE_RETURN_IF_ERROR(manifest.status());
  const absl::Status status = CheckComplete(*manifest);
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  return manifest;
}

// The entries by file, in the order of their bytes.
std::map<std::string, std::vector<Entry>> EntriesByFile(const Manifest& manifest) {
  std::map<std::string, std::vector<Entry>> files;
  for (const ManifestFile& file : manifest.files) files[file.name];
  for (const ManifestTensor& tensor : manifest.tensors) {
    for (const TensorSlice& slice : tensor.slices) files[slice.file].push_back({&tensor, &slice});
  }
  for (auto& [name, entries] : files) {
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.slice->offset < b.slice->offset;
    });
  }
  return files;
}

// Whether the shard's header agrees with the manifest about an entry.
bool Agree(const Safetensor& found, int64_t offset, const Entry& entry) {
  const std::vector<int64_t> shape = BoxOf(*entry.tensor, *entry.slice).sizes;
  return found.name == entry.tensor->name && found.dtype == entry.tensor->dtype &&
         found.shape == shape && offset == entry.slice->offset &&
         static_cast<int64_t>(found.bytes.size()) == entry.slice->bytes;
}

absl::Status CheckHeader(const MappedFile& file, const std::vector<Entry>& entries) {
  const auto damaged = [&](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(file.path(), ": ", what));
  };
  const absl::string_view contents = Contents(file);
  absl::StatusOr<std::vector<Safetensor>> found = ParseSafetensors(contents);
  if (!found.ok()) return damaged(found.status().message());
  std::map<absl::string_view, const Safetensor*> by_name;
  for (const Safetensor& tensor : *found) by_name[tensor.name] = &tensor;
  for (const Entry& entry : entries) {
    const auto at = by_name.find(entry.tensor->name);
    if (at == by_name.end() ||
        !Agree(*at->second, at->second->bytes.data() - contents.data(), entry)) {
      return damaged(absl::StrCat("its header contradicts ", kManifestName, " at tensor \"",
                                  entry.tensor->name, "\", ", PlaceText(*entry.slice)));
    }
  }
  // Names are unique on both sides, so with equal counts none can be missing.
  if (found->size() != entries.size()) {
    return damaged(absl::StrCat("its header has ", found->size(), " tensors, ", kManifestName, " ",
                                entries.size(), " of them"));
  }
  return absl::OkStatus();
}

absl::StatusOr<MappedFile> OpenShard(const std::string& directory, const ManifestFile& listed,
                                     const std::vector<Entry>& entries) {
  const std::string path = absl::StrCat(directory, "/", listed.name);
  absl::StatusOr<MappedFile> file = MappedFile::Open(path, MappedFile::Access::kReadOnDemand);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrCat(path, ": missing"));
  }
  if (absl::IsFailedPrecondition(file.status())) {
    return absl::DataLossError(file.status().message());
  }
  if (!file.ok()) return file.status();
  if (static_cast<int64_t>(file->size()) != listed.bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", file->size(), " bytes instead of ", listed.bytes));
  }
  PACELINE_RETURN_IF_ERROR(CheckHeader(*file, entries));
  return file;
}

absl::Status CompareChecksum(const std::string& path, const Entry& entry, uint64_t checksum) {
  if (checksum == entry.slice->checksum) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": damaged: tensor \"", entry.tensor->name, "\", ",
                                          PlaceText(*entry.slice), ": the checksum is ",
                                          ChecksumText(checksum), " instead of ",
                                          ChecksumText(entry.slice->checksum)));
}

// Reads an entry's bytes without a mapping: a disk error is then a message, not SIGBUS.
absl::StatusOr<uint64_t> ReadChecksum(int fd, const Entry& entry, std::vector<char>& buffer,
                                      const std::function<void(int64_t bytes)>& on_read) {
  Checksum checksum;
  int64_t done = 0;
  while (done < entry.slice->bytes) {
    const auto wanted =
        static_cast<size_t>(std::min<int64_t>(kReadBytes, entry.slice->bytes - done));
    const ssize_t read = ::pread(fd, buffer.data(), wanted, entry.slice->offset + done);
    if (read < 0 && errno == EINTR) continue;
    if (read <= 0) {
      return absl::DataLossError(
          absl::StrCat("tensor \"", entry.tensor->name, "\", ", PlaceText(*entry.slice),
                       ": cannot be read at offset ", entry.slice->offset + done, ": ",
                       read == 0 ? "the file ends there" : std::strerror(errno)));
    }
    checksum.Add({buffer.data(), static_cast<size_t>(read)});
    done += read;
    on_read(read);
  }
  return checksum.Take();
}

// Adds a line for each damaged entry.
void VerifyEntries(const std::string& path, const std::vector<Entry>& entries,
                   const std::function<void(int64_t bytes)>& on_read,
                   std::vector<std::string>& damages) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    damages.push_back(absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
    return;
  }
  const absl::Cleanup close = [fd] { ::close(fd); };
  std::vector<char> buffer(kReadBytes);
  for (const Entry& entry : entries) {
    const absl::StatusOr<uint64_t> checksum = ReadChecksum(fd, entry, buffer, on_read);
    if (!checksum.ok()) {
      damages.push_back(absl::StrCat(path, ": ", checksum.status().message()));
    } else if (absl::Status status = CompareChecksum(path, entry, *checksum); !status.ok()) {
      damages.emplace_back(status.message());
    }
  }
}

}  // namespace

absl::StatusOr<CheckpointFiles> CheckpointFiles::Open(const std::string& directory) {
  CheckpointFiles files;
  files.directory_ = directory;
  PACELINE_ASSIGN_OR_RETURN(files.manifest_, ReadWholeManifest(directory));
  const std::map<std::string, std::vector<Entry>> entries = EntriesByFile(files.manifest_);
  for (const ManifestFile& listed : files.manifest_.files) {
    PACELINE_ASSIGN_OR_RETURN(MappedFile file,
                              OpenShard(directory, listed, entries.at(listed.name)));
    files.files_.emplace(listed.name, std::move(file));
  }
  return files;
}

const ManifestTensor* CheckpointFiles::Find(absl::string_view tensor) const {
  const auto at = std::lower_bound(
      manifest_.tensors.begin(), manifest_.tensors.end(), tensor,
      [](const ManifestTensor& a, absl::string_view name) { return a.name < name; });
  return at == manifest_.tensors.end() || at->name != tensor ? nullptr : &*at;
}

absl::string_view CheckpointFiles::Bytes(const TensorSlice& slice) const {
  return Contents(files_.at(slice.file))
      .substr(static_cast<size_t>(slice.offset), static_cast<size_t>(slice.bytes));
}

std::string CheckpointFiles::PathOf(const TensorSlice& slice) const {
  return absl::StrCat(directory_, "/", slice.file);
}

absl::Status CheckpointFiles::Verify(const ManifestTensor& tensor, const TensorSlice& slice) const {
  return VerifyChecksum(tensor, slice, ChecksumOf(Bytes(slice)));
}

absl::Status CheckpointFiles::VerifyChecksum(const ManifestTensor& tensor, const TensorSlice& slice,
                                             uint64_t checksum) const {
  return CompareChecksum(PathOf(slice), {&tensor, &slice}, checksum);
}

absl::StatusOr<std::vector<std::string>> VerifyCheckpoint(
    const std::string& directory,
    const std::function<void(int64_t done, int64_t all)>& on_progress) {
  PACELINE_ASSIGN_OR_RETURN(const Manifest manifest, ReadWholeManifest(directory));
  const std::map<std::string, std::vector<Entry>> entries = EntriesByFile(manifest);
  int64_t all = 0;
  for (const ManifestTensor& tensor : manifest.tensors) all += TensorBytes(tensor);
  int64_t done = 0;
  const auto on_read = [&](int64_t bytes) { on_progress(done += bytes, all); };
  std::vector<std::string> damages;
  for (const ManifestFile& listed : manifest.files) {
    const std::vector<Entry>& of_file = entries.at(listed.name);
    const absl::Status shard = OpenShard(directory, listed, of_file).status();
    if (shard.ok()) {
      VerifyEntries(absl::StrCat(directory, "/", listed.name), of_file, on_read, damages);
    } else if (absl::IsDataLoss(shard)) {
      damages.emplace_back(shard.message());
    } else {
      return shard;
    }
  }
  on_progress(all, all);
  return damages;
}

}  // namespace paceline
