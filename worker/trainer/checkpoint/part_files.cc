#include "worker/trainer/checkpoint/part_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/atomic_file/atomic_file.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/core/status_macros.h"
#include "worker/trainer/checkpoint/file_error.h"

namespace paceline {
namespace {

std::string PartPath(const std::string& directory, int rank) {
  return absl::StrCat(directory, "/", PartName(rank));
}

absl::StatusOr<Manifest> ReadPart(const std::string& path) {
  absl::StatusOr<Manifest> part = ReadManifest(path);
  if (absl::IsNotFound(part.status())) {
    return absl::DataLossError(absl::StrCat("the part of a rank is missing: ", path));
  }
  if (absl::IsUnimplemented(part.status())) return absl::DataLossError(part.status().message());
  return part;
}

// Refuses a text that is too long to be read again.
absl::Status CheckLength(const std::string& path, const std::string& text) {
  if (text.size() <= kMaxManifestBytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(path, " would have ", text.size(), " bytes, and a manifest has no more than ",
                   kMaxManifestBytes, ": the model has too many tensors for so many ranks"));
}

absl::Status CheckSize(const std::string& path, int64_t bytes) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    return errno == ENOENT ? absl::DataLossError(absl::StrCat("a shard is missing: ", path))
                           : FileError("cannot ask for the size of", path);
  }
  if (info.st_size == bytes) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(path, ": has ", info.st_size, " bytes where its rank wrote ", bytes));
}

bool Exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

}  // namespace

absl::Status WritePart(const std::string& directory, int rank, const Manifest& part) {
  const std::string path = PartPath(directory, rank);
  const std::string text = FormatManifest(part);
  PACELINE_RETURN_IF_ERROR(CheckLength(path, text));
  const absl::Status status = WriteFileAtomically(path, {text});
  if (!status.ok()) ::unlink(path.c_str());
  return AsFileError(status);
}

absl::Status CommitParts(const std::string& directory, int ranks) {
  const std::string manifest_path = absl::StrCat(directory, "/", kManifestName);
  if (!Exists(manifest_path)) {
    std::vector<Manifest> parts;
    for (int rank = 0; rank < ranks; ++rank) {
      PACELINE_ASSIGN_OR_RETURN(Manifest part, ReadPart(PartPath(directory, rank)));
      parts.push_back(std::move(part));
    }
    PACELINE_ASSIGN_OR_RETURN(Manifest manifest, MergeManifests(std::move(parts)));
    for (const ManifestFile& file : manifest.files) {
      PACELINE_RETURN_IF_ERROR(CheckSize(absl::StrCat(directory, "/", file.name), file.bytes));
    }
    manifest.created = absl::ToUnixSeconds(absl::Now());
    const std::string text = FormatManifest(manifest);
    PACELINE_RETURN_IF_ERROR(CheckLength(manifest_path, text));
    PACELINE_RETURN_IF_ERROR(AsFileError(WriteFileAtomically(manifest_path, {text})));
  }
  // A part that cannot be removed does no harm.
  for (int rank = 0; rank < ranks; ++rank) ::unlink(PartPath(directory, rank).c_str());
  return absl::OkStatus();
}

}  // namespace paceline
