// Handles what an earlier daemon left of the node's trainers.
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/strip.h"
#include "common/log.h"
#include "worker/daemon/state/state_dir.h"
#include "worker/daemon/trainers/node_trainers.h"

namespace paceline {
namespace {

constexpr absl::Duration kAdoptionRetry = absl::Milliseconds(10);

}  // namespace

void NodeTrainers::FindTrainers() {
  const absl::StatusOr<std::vector<TrainerId>> ids = ListTrainerDirs(options_.setup.paths);
  if (!ids.ok()) {
    PACELINE_LOG(ERROR) << "trainers_not_found reason=\"" << ids.status().message() << "\"";
    return;
  }
  for (const TrainerId& id : *ids) {
    switch (NodeTrainer::Examine(options_.setup.paths, id)) {
      case NodeTrainer::Remains::kOld:
      case NodeTrainer::Remains::kUnborn:  // A plan that still lists it will start it.
        Apply(OldDirFound{id});
        break;
      case NodeTrainer::Remains::kStarted:
        Adopt(id);
        break;
    }
  }
}

// Removes rings of trainers whose dir is gone; a daemon killed at a bad moment leaves them.
void NodeTrainers::RemoveStrayRings() const {
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(options_.setup.paths.runtime_dir, error)) {
    const std::string name = entry.path().filename().string();
    absl::string_view stem = name;
    if (!absl::ConsumeSuffix(&stem, ".ring") && !absl::ConsumeSuffix(&stem, ".ring.new")) continue;
    const std::optional<TrainerId> id = ParseTrainerName(stem);
    if (!id.has_value()) continue;
    const auto trainer = trainers_.find(*id);
    if (trainer != trainers_.end() && !trainer->second.ended()) continue;
    std::filesystem::remove(entry.path(), error);
  }
}

void NodeTrainers::Adopt(const TrainerId& id) {
  NodeTrainer& trainer = trainers_.try_emplace(id, options_.setup, id).first->second;
  const absl::Status status = trainer.Adopt();
  Apply(TrainerFound{id, !trainer.ended(), trainer.plan().has_stop()});
  if (trainer.ended()) return;
  sockets_.SetCommand(id, trainer.Command());
  OnAdopted(trainer, status);
}

void NodeTrainers::OnAdopted(NodeTrainer& trainer, const absl::Status& status) {
  const TrainerId id = trainer.id();
  if (!status.ok()) {
    // Its shim is still starting.
    loop_.After(kAdoptionRetry, [this, id] {
      NodeTrainer& again = *Find(id);
      OnAdopted(again, again.Adopt());
    });
    return;
  }
  if (!trainer.process().has_value()) return OnProcessEnded(id);
  metrics_.AddAdopted();
  PACELINE_LOG(INFO) << "trainer_adopted " << trainer.Named()
                     << " shim=" << trainer.process()->shim();
  Watch(trainer);
  // A plan may have arrived meanwhile.
  if (plans_.count(id) > 0 && set_.StopRequested(id)) Stop(id, /*kill=*/false);
}

}  // namespace paceline
