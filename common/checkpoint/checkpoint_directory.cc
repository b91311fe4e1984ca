// The functions of checkpoint_files.h about a job's directory.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/atomic_file/atomic_file.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"
#include "common/core/status_macros.h"
#include "common/foreign_dir.h"

namespace paceline {
namespace {

constexpr char kRemovedPrefix[] = "removed-";
constexpr size_t kMaxEntries = 1 << 20;  // In a job's directory: some 100 MB of names.

absl::Status Failed(absl::string_view what, const std::string& path, const std::error_code& error) {
  const std::string message = absl::StrCat(what, " ", path, ": ", error.message());
  if (error == std::errc::permission_denied || error == std::errc::operation_not_permitted ||
      error == std::errc::read_only_file_system) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

absl::Status RemoveTree(const std::string& path) {
  const absl::Status removed = RemoveForeignTree(path);
  if (removed.ok() || absl::IsPermissionDenied(removed)) return removed;
  return absl::UnavailableError(removed.message());
}

absl::StatusOr<std::vector<std::string>> NamesIn(const std::string& directory) {
  std::vector<std::string> names;
  std::error_code error;
  std::filesystem::directory_iterator at(directory, error);
  while (!error && at != std::filesystem::directory_iterator() && names.size() <= kMaxEntries) {
    names.push_back(at->path().filename());
    at.increment(error);
  }
  if (error == std::errc::no_such_file_or_directory) {
    return absl::NotFoundError(absl::StrCat("there is no directory ", directory));
  }
  if (error) return Failed("cannot read", directory, error);
  if (names.size() <= kMaxEntries) return names;
  return absl::ResourceExhaustedError(
      absl::StrCat(directory, " has more than ", kMaxEntries,
                   " entries, which is no directory of checkpoints: remove what is no part of it"));
}

// Whether there is a manifest, readable or not.
absl::StatusOr<bool> HasManifest(const std::string& directory) {
  struct stat info;
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  if (::lstat(path.c_str(), &info) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR) return false;
  return Failed("cannot look at", path, std::error_code(errno, std::generic_category()));
}

// Fails when the manifest cannot be read or does not belong to `key`.
absl::StatusOr<CompleteCheckpoint> Describe(const std::string& directory,
                                            const CheckpointKey& key) {
  const std::string path = absl::StrCat(directory, "/", kManifestName);
  const auto damaged = [&](absl::string_view why) {
    return absl::DataLossError(absl::StrCat(path, ": ", why));
  };
  int64_t bytes = 0;
  PACELINE_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(path, &bytes));
  if (const absl::Status whole = CheckComplete(manifest); !whole.ok()) {
    return damaged(whole.message());
  }
  if (manifest.step != key.step || manifest.generation != key.generation) {
    return damaged("it is that of another step");
  }
  for (const ManifestFile& listed : manifest.files) {
    if (__builtin_add_overflow(bytes, listed.bytes, &bytes)) {
      return damaged("its files have more bytes than there can be");
    }
  }
  return CompleteCheckpoint{CheckpointName(key), key.step,        key.generation, bytes,
                            manifest.ranks,      manifest.created};
}

}  // namespace

absl::Status RemoveCheckpoint(const std::string& directory) {
  std::string path = directory;
  while (absl::EndsWith(path, "/")) path.pop_back();
  const size_t name_at = path.rfind('/') + 1;  // 0 if there is no slash.
  const std::string name = path.substr(name_at);
  if (!ParseCheckpointName(name).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat(directory, " is no checkpoint's directory"));
  }
  // An earlier removal may have left a directory of this name: remove it first.
  const std::string removed = absl::StrCat(path.substr(0, name_at), kRemovedPrefix, name);
  PACELINE_RETURN_IF_ERROR(RemoveTree(removed));
  if (std::rename(path.c_str(), removed.c_str()) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return Failed("cannot rename", path, std::error_code(errno, std::generic_category()));
  }
  // First, so that after a power loss no checkpoint under its own name lacks a shard.
  PACELINE_RETURN_IF_ERROR(SyncDirectoryOf(path));
  return RemoveTree(removed);
}

absl::StatusOr<std::optional<CompleteCheckpoint>> RemoveIncompleteCheckpoint(
    const std::string& directory) {
  PACELINE_ASSIGN_OR_RETURN(const bool has_manifest, HasManifest(directory));
  if (!has_manifest) {
    PACELINE_RETURN_IF_ERROR(RemoveCheckpoint(directory));
    return std::nullopt;
  }
  const auto key = ParseCheckpointName(directory.substr(directory.rfind('/') + 1));
  if (!key.has_value()) return std::nullopt;
  absl::StatusOr<CompleteCheckpoint> found = Describe(directory, *key);
  if (!found.ok()) return std::nullopt;
  return *std::move(found);
}

absl::StatusOr<std::vector<CompleteCheckpoint>> SettleCheckpoints(
    const std::string& job_directory, int64_t generation, std::vector<std::string>* left_out) {
  PACELINE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(job_directory));
  std::vector<CompleteCheckpoint> complete;
  for (const std::string& name : names) {
    const std::string path = absl::StrCat(job_directory, "/", name);
    absl::string_view left = name;
    if (absl::ConsumePrefix(&left, kRemovedPrefix) && ParseCheckpointName(left).has_value()) {
      PACELINE_RETURN_IF_ERROR(RemoveTree(path));
      continue;
    }
    const std::optional<CheckpointKey> key = ParseCheckpointName(name);
    std::error_code error;
    if (!key.has_value() || !std::filesystem::is_directory(path, error)) continue;
    PACELINE_ASSIGN_OR_RETURN(const bool has_manifest, HasManifest(path));
    if (has_manifest) {
      absl::StatusOr<CompleteCheckpoint> found = Describe(path, *key);
      if (found.ok()) {
        complete.push_back(*std::move(found));
      } else if (left_out != nullptr) {
        left_out->emplace_back(found.status().message());
      }
    } else if (key->generation <= generation) {
      PACELINE_RETURN_IF_ERROR(RemoveCheckpoint(path));
    }
  }
  std::sort(complete.begin(), complete.end(),
            [](const CompleteCheckpoint& a, const CompleteCheckpoint& b) {
              return CheckpointKey{a.step, a.generation} < CheckpointKey{b.step, b.generation};
            });
  return complete;
}

}  // namespace paceline
