// How a trainer saves: its shard, and as rank 0 the manifest.
#include <algorithm>

#include "tests/sim/replica_judge.h"
#include "tests/sim/trainer.h"
#include "tests/sim/training.h"

namespace paceline::sim {
namespace {

constexpr int64_t kSaveLimit = 2;  // Unfinished ones at a time.

}  // namespace

std::string Trainer::DirectoryOf(const CheckpointKey& key) const {
  return absl::StrCat(facts_.directory, "/", id_.job.value(), "/", CheckpointName(key));
}

SaveStatus* Trainer::FindSave(const CheckpointKey& key) {
  for (SaveStatus& save : status_.saves) {
    if (save.step == key.step && save.generation.value() == key.generation) return &save;
  }
  return nullptr;
}

void Trainer::Save(int64_t order) {
  saved_ = true;
  const auto writing =
      std::count_if(status_.saves.begin(), status_.saves.end(),
                    [](const SaveStatus& save) { return save.state == SaveState::kWriting; });
  if (status_.saves.size() == kMaxSavesReported) status_.saves.erase(status_.saves.begin());
  SaveStatus save;
  save.step = step();
  save.generation = Generation(membership_.present());
  save.order = order;
  save.bytes = 100;
  save.state = writing >= kSaveLimit ? SaveState::kSkipped : SaveState::kWriting;
  status_.saves.push_back(save);
  status_.blocked = absl::Milliseconds(5);
  Tell();
  if (save.state == SaveState::kSkipped) return;
  const bool fails =
      world_.random.Chance(world_.settings.save_fails) && world_.time.now() < world_.settings.quiet;
  const CheckpointKey key{save.step, membership_.present()};
  // Its rank in that generation, even if it changes meanwhile.
  const int rank = world_.training->RankIn(*this, key.generation);
  if (facts_.shards > 1) world_.replica_judge->OnSave(*this, DirectoryOf(key), rank);
  Later(1 * kMilli + world_.random.Exponential(world_.settings.disk_delay),
        [this, key, rank, fails] { EndSave(key, rank, fails); });
}

void Trainer::EndSave(const CheckpointKey& key, int rank, bool fails) {
  // A save that its generation has not finished before its end is abandoned.
  if (key.generation != membership_.present()) fails = true;
  if (!fails) world_.disk.AddShard(DirectoryOf(key), key, rank);
  SaveStatus* save = FindSave(key);
  if (save != nullptr) {
    save->state = fails ? SaveState::kFailed : SaveState::kDurable;
    if (fails) save->failure = SaveFailure::kNoSpace;
  }
  Tell();
  CheckCommits();
  if (step() >= facts_.steps) FinishWhenSaved();
}

void Trainer::CheckCommits() {
  if (ending_ || order_.generation != membership_.present()) return;
  for (const int64_t step : order_.commit_steps) {
    const CheckpointKey key{step, order_.generation};
    if (std::count(committing_.begin(), committing_.end(), key) > 0) continue;
    const SaveStatus* save = FindSave(key);
    if (save == nullptr || save->state != SaveState::kDurable) continue;
    committing_.push_back(key);
    Later(world_.random.Exponential(world_.settings.disk_delay / 4),
          [this, key, ranks = order_.world_size] { CommitManifest(key, ranks); });
  }
}

void Trainer::CommitManifest(const CheckpointKey& key, int ranks) {
  const bool complete = world_.disk.AddManifest(DirectoryOf(key), ranks);
  if (complete && facts_.shards > 1) {
    world_.replica_judge->OnManifest(DirectoryOf(key), ranks, Lanes{facts_.shards});
  }
  if (complete && world_.random.Chance(world_.settings.checkpoint_damage)) {
    world_.disk.Damage(DirectoryOf(key));
  }
  if (complete) world_.trace.Add(name(), ": checkpoint ", CheckpointName(key));
  SaveStatus* save = FindSave(key);
  if (save != nullptr) {
    save->state = complete ? SaveState::kCommitted : SaveState::kFailed;
    if (!complete) save->failure = SaveFailure::kInconsistent;
  }
  Tell();
  if (step() >= facts_.steps) FinishWhenSaved();
}

}  // namespace paceline::sim
