#include "worker/daemon/core/trainer_set.h"

#include <algorithm>
#include <set>

namespace paceline {

std::vector<TrainerAction> TrainerSet::Step(const TrainerEvent& event, absl::Time now) {
  Actions actions;
  if (const auto* found = std::get_if<TrainerFound>(&event)) OnFound(*found);
  if (const auto* old = std::get_if<OldDirFound>(&event)) old_.push_back(old->id);
  if (const auto* plan = std::get_if<PlanReceived>(&event)) OnPlan(*plan, now, actions);
  if (const auto* ended = std::get_if<TrainerEnded>(&event)) OnEnded(ended->id, actions);
  return actions;
}

absl::Time TrainerSet::NextDeadline() const {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [id, trainer] : trainers_) next = std::min(next, trainer.kill_at);
  return next;
}

std::vector<TrainerAction> TrainerSet::Tick(absl::Time now) {
  Actions actions;
  for (auto& [id, trainer] : trainers_) {
    if (trainer.kill_at > now) continue;
    trainer.kill_at = absl::InfiniteFuture();
    actions.push_back(KillTrainer{id});
  }
  return actions;
}

bool TrainerSet::StopRequested(const TrainerId& id) const {
  const auto found = trainers_.find(id);
  return found != trainers_.end() && found->second.state == State::kStopping;
}

void TrainerSet::OnFound(const TrainerFound& found) {
  Trainer& trainer = trainers_[found.id];
  trainer.state = !found.alive           ? State::kEnded
                  : found.stop_requested ? State::kStopping
                                         : State::kRunning;
}

void TrainerSet::OnPlan(const PlanReceived& plan, absl::Time now, Actions& actions) {
  std::set<TrainerId> listed;
  for (const WantedTrainer& wanted : plan.trainers) listed.insert(wanted.id);
  std::vector<TrainerId> forgotten;
  for (auto& [id, trainer] : trainers_) {
    trainer.listed = listed.count(id) > 0;
    if (trainer.listed) continue;
    if (trainer.state == State::kEnded) {
      forgotten.push_back(id);
    } else {
      Stop(id, trainer, options_.unlisted_grace, now, actions);
    }
  }
  for (const TrainerId& id : forgotten) Forget(id, actions);
  for (const WantedTrainer& wanted : plan.trainers) OnWanted(wanted, now, actions);
}

void TrainerSet::OnWanted(const WantedTrainer& wanted, absl::Time now, Actions& actions) {
  const auto [entry, is_new] = trainers_.try_emplace(wanted.id);
  Trainer& trainer = entry->second;
  if (!is_new) {
    if (wanted.stop.has_value()) Stop(wanted.id, trainer, *wanted.stop, now, actions);
    return;
  }
  old_.erase(std::remove(old_.begin(), old_.end(), wanted.id), old_.end());
  if (wanted.stop.has_value()) {
    trainer.state = State::kEnded;
    actions.push_back(SkipTrainer{wanted.id});
  } else {
    actions.push_back(StartTrainer{wanted.id});
  }
}

void TrainerSet::OnEnded(const TrainerId& id, Actions& actions) {
  const auto found = trainers_.find(id);
  if (found == trainers_.end()) return;
  found->second.state = State::kEnded;
  found->second.kill_at = absl::InfiniteFuture();
  if (!found->second.listed) Forget(id, actions);
}

void TrainerSet::Stop(const TrainerId& id, Trainer& trainer, absl::Duration grace, absl::Time now,
                      Actions& actions) {
  if (trainer.state == State::kEnded) return;
  const bool asked = trainer.state == State::kStopping;
  const bool killed = asked && trainer.kill_at == absl::InfiniteFuture();
  trainer.state = State::kStopping;
  if (grace <= absl::ZeroDuration()) {
    trainer.kill_at = absl::InfiniteFuture();
    actions.push_back(KillTrainer{id});
    return;
  }
  if (!asked || killed) actions.push_back(TerminateTrainer{id});
  // A later plan may shorten the grace period but not extend it.
  trainer.kill_at = std::min(trainer.kill_at, now + grace);
}

void TrainerSet::Forget(const TrainerId& id, Actions& actions) {
  trainers_.erase(id);
  actions.push_back(ForgetTrainer{id});
  old_.push_back(id);
  for (; old_.size() > options_.kept_dirs; old_.pop_front()) {
    actions.push_back(DeleteTrainerDir{old_.front()});
  }
}

}  // namespace paceline
