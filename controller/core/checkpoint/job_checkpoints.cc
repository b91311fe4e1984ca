#include "controller/core/checkpoint/job_checkpoints.h"

#include <algorithm>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace paceline {
namespace {

bool IsOlder(const Checkpoint& a, const Checkpoint& b) {
  return std::tie(a.key.generation, a.key.step) < std::tie(b.key.generation, b.key.step);
}

}  // namespace

bool SavesCheckpoints(const JobRequest& request) { return !request.checkpoints.directory.empty(); }

std::string JobDirectory(const JobRequest& request) {
  return absl::StrCat(absl::StripSuffix(request.checkpoints.directory, "/"), "/",
                      request.id.value());
}

std::string DirectoryOf(const Job& job, const CheckpointKey& key, const std::string& base) {
  const std::string directory =
      base.empty() ? JobDirectory(job.request)
                   : absl::StrCat(absl::StripSuffix(base, "/"), "/", job.request.id.value());
  return absl::StrCat(directory, "/", CheckpointName(key));
}

std::string DirectoryOf(const Job& job, const Checkpoint& checkpoint) {
  return DirectoryOf(job, checkpoint.key, checkpoint.base);
}

std::string BaseOf(const Job& job, int64_t order) {
  const auto named = job.checkpoints.directories.find(order);
  return named == job.checkpoints.directories.end() ? "" : named->second;
}

const Checkpoint* NewestComplete(const Job& job, Generation since) {
  const auto& records = job.checkpoints.records;
  const auto found = std::find_if(records.rbegin(), records.rend(), [&](const Checkpoint& c) {
    return c.state == CheckpointState::kComplete && c.key.generation >= since.value();
  });
  return found == records.rend() ? nullptr : &*found;
}

std::string SaveTrouble(const Job& job, absl::Time now) {
  const std::string& error = job.checkpoints.last_error;
  if (job.ended_already() || error.empty()) return "";
  const Checkpoint* newest = NewestComplete(job);
  if (newest == nullptr) {
    return absl::StrCat("Its checkpoints cannot be saved, and it has none: ", error);
  }
  const absl::Duration age = std::max(now - newest->created, absl::ZeroDuration());
  return absl::StrCat("Its checkpoints cannot be saved (the newest is of step ", newest->key.step,
                      ", ", absl::FormatDuration(absl::Trunc(age, absl::Seconds(1))),
                      " old): ", error);
}

const Checkpoint* FindCheckpoint(const Job& job, const CheckpointKey& key) {
  for (const Checkpoint& checkpoint : job.checkpoints.records) {
    if (checkpoint.key == key) return &checkpoint;
  }
  return nullptr;
}

Checkpoint* FindCheckpoint(Job& job, const CheckpointKey& key) {
  return const_cast<Checkpoint*>(FindCheckpoint(std::as_const(job), key));
}

const Checkpoint* FindByDirectory(const Job& job, const std::string& directory) {
  for (const Checkpoint& checkpoint : job.checkpoints.records) {
    if (DirectoryOf(job, checkpoint) == directory) return &checkpoint;
  }
  return nullptr;
}

Checkpoint* FindByDirectory(Job& job, const std::string& directory) {
  return const_cast<Checkpoint*>(FindByDirectory(std::as_const(job), directory));
}

std::optional<SavedBy> ParseDirectory(absl::string_view directory) {
  const size_t last = directory.rfind('/');
  if (last == absl::string_view::npos || last == 0) return std::nullopt;
  const std::optional<CheckpointKey> key = ParseCheckpointName(directory.substr(last + 1));
  const absl::string_view above = directory.substr(0, last);
  const absl::string_view job = above.substr(above.rfind('/') + 1);  // npos + 1 is 0.
  if (!key.has_value() || !absl::StartsWith(job, "job-")) return std::nullopt;
  return SavedBy{JobId(std::string(job)), *key};
}

void AddCheckpoint(Job& job, Checkpoint checkpoint) {
  auto& records = job.checkpoints.records;
  const auto next = std::upper_bound(records.begin(), records.end(), checkpoint, IsOlder);
  if (next != records.begin()) {
    checkpoint.created = std::max(checkpoint.created, std::prev(next)->created);
  }
  if (next != records.end()) checkpoint.created = std::min(checkpoint.created, next->created);
  records.insert(next, std::move(checkpoint));
}

void DropCheckpoint(Job& job, const CheckpointKey& key) {
  auto& records = job.checkpoints.records;
  records.erase(std::remove_if(records.begin(), records.end(),
                               [&](const Checkpoint& c) { return c.key == key; }),
                records.end());
}

}  // namespace paceline
