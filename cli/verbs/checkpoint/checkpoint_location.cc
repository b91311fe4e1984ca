#include "cli/verbs/checkpoint/checkpoint_location.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/text/sanitize.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/checkpoint/checkpoint_paths.h"

namespace paceline {
namespace {

namespace fs = std::filesystem;

// Directory that a user's path refers to.
std::string DirectoryAt(const std::string& text) {
  const fs::path path = AbsolutePath(text);
  std::error_code ignored;
  const bool manifest = path.filename() == kManifestName && !fs::is_directory(path, ignored);
  return manifest ? path.parent_path().string() : path.string();
}

bool IsReadable(const std::string& path) {
  std::error_code ignored;
  return access(path.c_str(), fs::is_directory(path, ignored) ? R_OK | X_OK : R_OK) == 0;
}

int LeaveToTheNodes(Program& program, const std::string& path) {
  program.Note(
      absl::StrCat(SanitizeLine(path), " cannot be read on this machine; the nodes have to"));
  return kCliOk;
}

bool HoldsWeights(const fs::path& directory) {
  std::error_code ignored;
  for (const char* name : {kManifestName, "model.safetensors", "model.safetensors.index.json"}) {
    if (fs::exists(directory / name, ignored)) return true;
  }
  return false;
}

}  // namespace

bool IsPath(absl::string_view text) {
  return absl::StartsWith(text, "/") || absl::StartsWith(text, ".");
}

std::string AbsolutePath(const std::string& path) {
  std::string absolute = fs::absolute(path).lexically_normal().string();
  if (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  return absolute;
}

std::string ForController(const std::string& text) {
  return IsPath(text) ? DirectoryAt(text) : text;
}

int CheckStart(Program& program, const std::string& text) {
  if (!IsPath(text)) return kCliOk;
  const std::string directory = DirectoryAt(text);
  if (!IsReadable(directory)) return LeaveToTheNodes(program, directory);
  const absl::Status status = CheckpointFiles::Open(directory).status();
  if (absl::IsPermissionDenied(status)) return LeaveToTheNodes(program, directory);
  return status.ok() ? kCliOk : program.Fail(status);
}

int CheckWeights(Program& program, const std::string& path) {
  const std::string at = AbsolutePath(path);
  if (!IsReadable(at)) return LeaveToTheNodes(program, at);
  std::error_code ignored;
  if (!fs::is_directory(at, ignored) || HoldsWeights(at)) return kCliOk;
  return program.Fail(kCliNotFound,
                      absl::StrCat(SanitizeLine(at), " holds no weights: there is neither ",
                                   kManifestName, " nor model.safetensors in it"));
}

int RefusePath(Program& program, const std::string& text) {
  if (!IsPath(text)) return kCliOk;
  return program.Fail(kCliUsage, "pin, unpin and delete take JOB/STEP, not a path");
}

int FindCheckpoint(Program& program, const std::string& text, CheckpointLocation* location) {
  if (IsPath(text)) {
    location->directory = DirectoryAt(text);
    std::error_code ignored;
    if (fs::is_directory(location->directory, ignored)) return kCliOk;
    return program.Fail(kCliNotFound,
                        absl::StrCat("there is no directory ", SanitizeLine(location->directory)));
  }
  v1::GetCheckpointRequest request;
  request.set_checkpoint(text);
  v1::Checkpoint& checkpoint = location->checkpoint.emplace();
  const grpc::Status status = program.client().Call(methods::kCheckpointGet, request, &checkpoint);
  if (!status.ok()) return program.Fail(status);
  location->directory = checkpoint.directory();
  return kCliOk;
}

absl::Status Explained(const absl::Status& status, const CheckpointLocation& location) {
  if (status.ok() || !location.checkpoint.has_value()) return status;
  if (access(location.directory.c_str(), R_OK | X_OK) == 0) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("the controller says that it lies in ", location.directory,
                   ", which cannot be read on this machine: run this where that is mounted, and "
                   "as a user who may read it"));
}

}  // namespace paceline
