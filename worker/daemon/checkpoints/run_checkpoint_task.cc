#include "worker/daemon/checkpoints/run_checkpoint_task.h"

#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/daemon/logs/log_files.h"
#include "worker/shim/allowed_roots.h"
#include "worker/shim/confinement.h"

namespace paceline {
namespace {

void AddFound(const CompleteCheckpoint& checkpoint, v1::CheckpointTaskResult* result) {
  v1::FoundCheckpoint& found = *result->add_found();
  found.set_name(checkpoint.name);
  found.set_step(checkpoint.step);
  found.set_generation(checkpoint.generation);
  found.set_bytes(checkpoint.bytes);
  found.set_ranks(checkpoint.ranks);
  found.mutable_create_time()->set_seconds(checkpoint.created);
}

absl::Status Settle(const v1::CheckpointTask& task, v1::CheckpointTaskResult* result) {
  std::vector<std::string> left_out;
  const absl::StatusOr<std::vector<CompleteCheckpoint>> complete =
      SettleCheckpoints(task.directory(), task.generation(), &left_out);
  for (const std::string& why : left_out) {
    PACELINE_LOG(WARNING) << "checkpoint_left_out reason=\"" << why << "\"";
  }
  if (absl::IsNotFound(complete.status())) {
    if (!task.must_exist()) return absl::OkStatus();  // The job has not saved anything.
    return absl::NotFoundError(absl::StrCat(
        task.directory(),
        " is missing here, and checkpoints are known to be in it: see whether its file system is "
        "mounted; if they are gone for good, make the directory again"));
  }
  PACELINE_RETURN_IF_ERROR(complete.status());
  for (const CompleteCheckpoint& checkpoint : *complete) AddFound(checkpoint, result);
  return absl::OkStatus();
}

absl::Status RemoveIncomplete(const v1::CheckpointTask& task, v1::CheckpointTaskResult* result) {
  PACELINE_ASSIGN_OR_RETURN(const std::optional<CompleteCheckpoint> complete,
                            RemoveIncompleteCheckpoint(task.directory()));
  if (complete.has_value()) AddFound(*complete, result);
  return absl::OkStatus();
}

absl::Status Run(const v1::CheckpointTask& task, v1::CheckpointTaskResult* result) {
  switch (task.kind()) {
    case v1::CheckpointTask::SETTLE:
      return Settle(task, result);
    case v1::CheckpointTask::REMOVE:
      return task.incomplete_only() ? RemoveIncomplete(task, result)
                                    : RemoveCheckpoint(task.directory());
    default:
      return absl::UnimplementedError(
          absl::StrCat("this worker knows no task of kind ", static_cast<int>(task.kind()),
                       "; it must be of the same version as its controller"));
  }
}

absl::Status ActAs(const JobUser& user) {
  if (user.is_own) return absl::OkStatus();
  const char* const failed = ActAsUser(user.ids);
  if (failed == nullptr) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", failed, " of --run-as ", user.name));
}

v1::CheckpointTaskResult Failed(const v1::CheckpointTask& task, const absl::Status& status) {
  v1::CheckpointTaskResult result;
  *result.mutable_task() = task;
  result.set_error(ToUtf8(std::string(status.message())));
  return result;
}

}  // namespace

v1::CheckpointTaskResult RunCheckpointTask(const v1::CheckpointTask& task) {
  v1::CheckpointTaskResult result;
  *result.mutable_task() = task;
  const absl::Status status = Run(task, &result);
  if (!status.ok()) result.set_error(ToUtf8(std::string(status.message())));
  return result;
}

v1::CheckpointTaskResult RunCheckpointTaskAs(const JobUser& user,
                                             const std::vector<std::string>& roots,
                                             const v1::CheckpointTask& task) {
  absl::Status status = ActAs(user);
  if (status.ok()) status = CheckRoots(roots, {{"checkpoint.directory", task.directory()}});
  return status.ok() ? RunCheckpointTask(task) : Failed(task, status);
}

}  // namespace paceline
