// How a rank's state goes from one generation to the next: what a rendezvous works on, and what
// comes before it.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "common/log.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/generation/hand_over.h"
#include "worker/trainer/generation/rendezvous.h"
#include "worker/trainer/loop/trainer_run.h"

namespace paceline {

Rendezvous TrainerRun::RendezvousOf(const Generation& generation) {
  return {generation.config,
          generation.connected.plan->plan,
          *generation.connected.groups,
          session_.workload->model(),
          session_.workload->optimizer(),
          session_.workload->attachments(),
          session_.undo ? &*session_.undo : nullptr,
          [this](const at::Tensor& skip) { return session_.workload->FinishUpdate(skip); }};
}

// Before the rendezvous, which compares the sizes of parameters, and brings the state of the
// position.
void TrainerRun::TakePosition(const BuiltPlan& plan) {
  if (!plan.shards.has_value() || session_.workload->SetShardGroups(&*plan.shards)) return;
  TrainingState& state = session_.state;
  const int64_t known = std::max(state.position.generation, state.position.decided);
  state.position = RankPosition();
  state.position.decided = known;  // That the training has begun.
  state.memory = StrategyMemory();
  state.is_open = state.in_step = false;
}

void TrainerRun::HandOver() {
  if (!connected_.has_value() || connected_->connected.hand_over == nullptr) return;
  const std::shared_ptr<Group> pair = std::move(connected_->connected.hand_over);
  NoteHandOver(pair);
  const std::optional<Failure> failure = Guard([&] {
    HandStateOver(*pair, RendezvousOf(*generation_), session_.state);
    return absl::OkStatus();
  });
  NoteHandOver(nullptr);
  // The other one fails, too, and the controller calls the generation off: this state is kept.
  if (failure.has_value()) {
    has_broken_groups_ = true;
    PACELINE_LOG(WARNING) << "generation=" << connected_->generation
                          << " has not got the state of this rank: " << failure->status.message();
  }
  connected_.reset();
}

void TrainerRun::NoteHandOver(std::shared_ptr<Group> pair) {
  const absl::MutexLock lock(&session_.mu);
  session_.hand_over = std::move(pair);
}

}  // namespace paceline
