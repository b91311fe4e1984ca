#include "controller/api/services/find_job.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/wire/errors.h"

namespace paceline {
namespace {

// Parses the part after the slash: STEP or STEP.gGENERATION. Generation 0 stands for the newest.
std::optional<CheckpointKey> ParseStep(const std::string& text) {
  CheckpointKey key;
  const size_t dot = text.find(".g");
  if (!absl::SimpleAtoi(text.substr(0, dot), &key.step) || key.step < 0) return std::nullopt;
  if (dot == std::string::npos) return key;
  if (!absl::SimpleAtoi(text.substr(dot + 2), &key.generation) || key.generation < 1) {
    return std::nullopt;
  }
  return key;
}

// Returns the newest checkpoint of the step, preferring complete ones.
const Checkpoint* FindByStep(const Job& job, const CheckpointKey& wanted) {
  const auto is_complete = [](const Checkpoint* checkpoint) {
    return checkpoint != nullptr && checkpoint->state == CheckpointState::kComplete;
  };
  const Checkpoint* newest = nullptr;
  for (const Checkpoint& checkpoint : job.checkpoints.records) {
    if (checkpoint.key.step != wanted.step) continue;
    if (wanted.generation != 0 && wanted.generation != checkpoint.key.generation) continue;
    // Records are sorted by generation.
    if (is_complete(&checkpoint) || !is_complete(newest)) newest = &checkpoint;
  }
  return newest;
}

grpc::Status JobNotFound(const std::string& reference) {
  return MakeError(grpc::StatusCode::NOT_FOUND, "JOB_NOT_FOUND",
                   absl::StrCat("no job has the id or name \"", reference, "\""),
                   {{"job", reference}});
}

grpc::Status NotFound(const std::string& name, const std::string& why) {
  return MakeError(grpc::StatusCode::NOT_FOUND, "CHECKPOINT_NOT_FOUND", why,
                   {{"checkpoint", name}});
}

}  // namespace

bool MaySee(const Principal& caller, const std::string& submitter) {
  if (SeesAllJobs(caller.role)) return true;
  return caller.role == Role::kSubmitter && !submitter.empty() && caller.name == submitter;
}

grpc::Status CheckRepeat(const Principal& caller, const Cluster& cluster, const JobId& job) {
  const auto found = cluster.jobs().find(job);
  if (found == cluster.jobs().end() || MaySee(caller, found->second.submitter)) {
    return grpc::Status::OK;
  }
  return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "REQUEST_ID_REUSED",
                   "the request_id was used by somebody else: take a new one");
}

grpc::Status FindJob(const Principal& caller, const Cluster& cluster, const std::string& reference,
                     const Job** job) {
  // Programs pass whole ids over and over: such a lookup must not go through all jobs.
  const Job* by_id = cluster.FindJob(JobId(reference));
  if (by_id != nullptr && MaySee(caller, by_id->submitter)) {
    *job = by_id;
    return grpc::Status::OK;
  }
  if (reference.empty()) return JobNotFound(reference);
  if (const auto* named = cluster.JobsNamed(reference); named != nullptr) {
    const auto newest = std::find_if(named->rbegin(), named->rend(), [&](const auto& entry) {
      return MaySee(caller, entry.second->submitter);
    });
    if (newest != named->rend()) {
      *job = newest->second;
      return grpc::Status::OK;
    }
  }
  std::vector<const Job*> by_prefix;
  const auto& jobs = cluster.jobs();
  for (auto at = jobs.lower_bound(JobId(reference));
       at != jobs.end() && absl::StartsWith(at->first.value(), reference) && by_prefix.size() < 3;
       ++at) {
    if (MaySee(caller, at->second.submitter)) by_prefix.push_back(&at->second);
  }
  if (by_prefix.empty()) return JobNotFound(reference);
  if (by_prefix.size() > 1) {
    const bool more = by_prefix.size() > 2;
    return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "AMBIGUOUS_JOB",
                     absl::StrCat("\"", reference, "\" fits ", more ? "several" : "2",
                                  " jobs: ", by_prefix[0]->request.id.value(), ", ",
                                  by_prefix[1]->request.id.value(), more ? ", ..." : ""),
                     {{"job", reference}});
  }
  *job = by_prefix.front();
  return grpc::Status::OK;
}

grpc::Status FindCheckpointByName(const Principal& caller, const Cluster& cluster,
                                  const std::string& name, NamedCheckpoint* found) {
  const size_t slash = name.find('/');
  std::optional<CheckpointKey> key;
  if (slash != std::string::npos) {
    key = ParseStep(name.substr(slash + 1));
    if (!key.has_value()) {
      return MakeError(grpc::StatusCode::INVALID_ARGUMENT, "CHECKPOINT_NAME_INVALID",
                       absl::StrCat("\"", name,
                                    "\" is no checkpoint's name: give JOB, JOB/STEP or "
                                    "JOB/STEP.gGENERATION, such as digits/1200"),
                       {{"checkpoint", name}});
    }
  }
  grpc::Status status = FindJob(caller, cluster, name.substr(0, slash), &found->job);
  if (!status.ok()) return status;
  const std::string job = absl::StrCat("job ", found->job->request.id.value());
  found->checkpoint = key.has_value() ? FindByStep(*found->job, *key) : NewestComplete(*found->job);
  if (found->checkpoint != nullptr) return grpc::Status::OK;
  if (!key.has_value()) return NotFound(name, absl::StrCat(job, " has no complete checkpoint"));
  return NotFound(
      name,
      absl::StrCat(job, " has no checkpoint of step ", key->step,
                   key->generation == 0 ? "" : absl::StrCat(" and generation ", key->generation)));
}

grpc::Status FindStartCheckpoint(const Principal& caller, const Cluster& cluster,
                                 const std::string& name, NamedCheckpoint* found) {
  grpc::Status status = FindCheckpointByName(caller, cluster, name, found);
  if (status.ok() && found->checkpoint->state == CheckpointState::kDeleting) {
    return NotFound(name, absl::StrCat("the checkpoint ", name, " is being removed"));
  }
  return status;
}

}  // namespace paceline
