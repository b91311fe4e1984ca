#include "cli/verbs/checkpoint_place.h"

#include <unistd.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline {

bool IsPath(absl::string_view text) {
  return absl::StartsWith(text, "/") || absl::StartsWith(text, ".");
}

std::string AbsolutePath(const std::string& path) {
  std::string absolute = std::filesystem::absolute(path).lexically_normal().string();
  if (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  return absolute;
}

std::string ForController(const std::string& text) {
  return IsPath(text) ? AbsolutePath(text) : text;
}

int FindCheckpoint(Program& program, const std::string& text, CheckpointPlace* place) {
  if (IsPath(text)) {
    place->directory = AbsolutePath(text);
    return kCliOk;
  }
  v1::GetCheckpointRequest request;
  request.set_checkpoint(text);
  v1::Checkpoint& checkpoint = place->checkpoint.emplace();
  const grpc::Status status = program.client().GetCheckpoint(request, &checkpoint);
  if (!status.ok()) return program.Fail(status);
  place->directory = checkpoint.directory();
  return kCliOk;
}

absl::Status Explained(const absl::Status& status, const CheckpointPlace& place) {
  if (status.ok() || !place.checkpoint.has_value()) return status;
  if (access(place.directory.c_str(), R_OK | X_OK) == 0) return status;
  return absl::FailedPreconditionError(
      absl::StrCat("the controller says that it lies in ", place.directory,
                   ", which cannot be read on this machine: run this where that is mounted, and "
                   "as a user who may read it"));
}

}  // namespace paceline
