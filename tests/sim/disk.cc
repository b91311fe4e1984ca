#include "tests/sim/disk.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace paceline::sim {
namespace {

constexpr int64_t kShardBytes = 100;

}  // namespace

void Disk::AddShard(const std::string& directory, const CheckpointKey& key, int rank) {
  Directory& entry = directories_[directory];
  entry.key = key;
  entry.shards.insert(rank);
}

bool Disk::HasShards(const std::string& directory, int ranks) const {
  const Directory* entry = Find(directory);
  return entry != nullptr && static_cast<int>(entry->shards.size()) >= ranks;
}

bool Disk::AddManifest(const std::string& directory, int ranks) {
  if (!HasShards(directory, ranks)) return false;
  directories_[directory].ranks = ranks;
  return true;
}

void Disk::Damage(const std::string& directory) { directories_.at(directory).damaged = true; }

const Disk::Directory* Disk::Find(const std::string& directory) const {
  const auto found = directories_.find(directory);
  return found == directories_.end() ? nullptr : &found->second;
}

std::vector<std::string> Disk::Complete(const std::string& job_directory) const {
  const std::string prefix = absl::StrCat(job_directory, "/");
  std::vector<std::string> found;
  for (auto i = directories_.lower_bound(prefix);
       i != directories_.end() && absl::StartsWith(i->first, prefix); ++i) {
    if (i->second.complete()) found.push_back(i->first);
  }
  return found;
}

CheckpointTaskResult Disk::Run(const CheckpointTask& task) {
  CheckpointTaskResult result;
  result.task = task;
  if (task.kind == CheckpointTask::Kind::kSettle) {
    result.found = Settle(task);
    return result;
  }
  const Directory* entry = Find(task.directory);
  if (entry != nullptr && !(task.incomplete_only && entry->complete())) {
    directories_.erase(task.directory);
  }
  return result;
}

std::vector<FoundCheckpoint> Disk::Settle(const CheckpointTask& task) {
  const std::string prefix = absl::StrCat(task.directory, "/");
  std::vector<FoundCheckpoint> found;
  auto i = directories_.lower_bound(prefix);
  while (i != directories_.end() && absl::StartsWith(i->first, prefix)) {
    const Directory& entry = i->second;
    if (entry.complete()) {
      FoundCheckpoint checkpoint;
      checkpoint.key = entry.key;
      checkpoint.ranks = entry.ranks;
      checkpoint.bytes = kShardBytes * entry.ranks;
      found.push_back(checkpoint);
    } else if (entry.key.generation <= task.generation.value()) {
      i = directories_.erase(i);
      continue;
    }
    ++i;
  }
  return found;
}

}  // namespace paceline::sim
