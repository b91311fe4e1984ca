#include "bench/load/simulated_trainers.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr int64_t kSamples = 32;
// A rank's figures cover this many steps (the default of log_every).
constexpr int64_t kFigureSteps = 10;

std::string KeyOf(const v1::TrainerId& id) {
  return absl::StrCat(id.job_id(), ".", id.generation(), ".", id.rank());
}

std::string StoreOf(const v1::TrainerPlan& plan) {
  return plan.has_membership() ? plan.membership().store_address() : plan.store_address();
}

// 0.99 to 1.01, the same for the same rank and step on every machine.
double Noise(const v1::TrainerId& id, int64_t step) {
  const auto mixed = static_cast<uint64_t>(step * 7919 + id.rank() * 104729) * 2654435761U;
  return 0.99 + 0.02 * static_cast<double>((mixed >> 16) % 1000) / 1000;
}

int64_t Nanos(double seconds) { return static_cast<int64_t>(seconds * 1e9); }

}  // namespace

void SimulatedTrainers::SetPlan(const v1::NodePlan& plan, absl::Time now) {
  std::set<std::string> listed;
  for (const v1::TrainerPlan& wanted : plan.trainers()) {
    const std::string key = KeyOf(wanted.id());
    listed.insert(key);
    const auto [known, is_new] = trainers_.try_emplace(key);
    if (is_new) known->second.due = now + kStartUp;
    known->second.plan = wanted;
  }
  for (auto trainer = trainers_.begin(); trainer != trainers_.end();) {
    trainer = listed.count(trainer->first) > 0 ? std::next(trainer) : trainers_.erase(trainer);
  }
}

bool SimulatedTrainers::Advance(absl::Time now) {
  bool changed = false;
  for (auto& [key, trainer] : trainers_) changed = AdvanceOne(trainer, now) || changed;
  return changed;
}

bool SimulatedTrainers::AdvanceOne(Trainer& trainer, absl::Time now) {
  const v1::TrainerState before = trainer.state;
  switch (trainer.state) {
    case v1::TRAINER_STARTING:
      if (now >= trainer.due) trainer.state = v1::TRAINER_READY;
      break;
    case v1::TRAINER_READY:
      if (StoreOf(trainer.plan).empty() || trainer.plan.membership().rank() < 0) break;
      trainer.state = v1::TRAINER_RUNNING;
      trainer.trains_since = now;
      break;
    case v1::TRAINER_RUNNING: {
      const double trained_s = absl::ToDoubleSeconds(now - trainer.trains_since);
      const int64_t all = trainer.plan.spec().steps();
      trainer.steps = std::min(all, static_cast<int64_t>(trained_s * steps_per_second_));
      const int64_t surplus = trainer.steps - trainer.reported - kMaxKept;
      if (surplus > 0) {
        trainer.reported += surplus;
        dropped_ += surplus;
      }
      if (trainer.steps == all) trainer.state = v1::TRAINER_FINISHED;
      break;
    }
    case v1::TRAINER_FINISHED:
      if (trainer.reported == trainer.steps) trainer.state = v1::TRAINER_EXITED;
      break;
    default:
      break;
  }
  if (trainer.plan.has_stop()) trainer.state = v1::TRAINER_EXITED;
  return trainer.state != before;
}

void SimulatedTrainers::Report(absl::Time now, v1::NodeReport* report) const {
  report->clear_trainers();
  for (const auto& [key, trainer] : trainers_) Describe(trainer, now, report->add_trainers());
}

void SimulatedTrainers::Describe(const Trainer& trainer, absl::Time now,
                                 v1::TrainerReport* report) const {
  const double step_s = 1 / steps_per_second_;
  *report->mutable_id() = trainer.plan.id();
  report->set_state(trainer.state);
  report->set_pid(1 + static_cast<int64_t>(absl::HashOf(KeyOf(trainer.plan.id())) % 4000000));
  if (trainer.state == v1::TRAINER_EXITED) report->mutable_exit();
  if (trainer.state == v1::TRAINER_STARTING) return;
  report->set_store_address(absl::StrCat("127.0.0.1:", 20000 + trainer.plan.slot()));
  if (trainer.trains_since == absl::InfinitePast()) return;
  v1::Progress& progress = *report->mutable_progress();
  progress.set_step(trainer.steps);
  progress.set_phase(v1::BACKWARD);
  progress.set_phase_s(std::fmod(absl::ToDoubleSeconds(now - trainer.trains_since), step_s));
  progress.set_loss(2.5);
  progress.set_step_s(trainer.steps > 0 ? step_s : 0);
  progress.set_samples_per_s(static_cast<double>(kSamples) * steps_per_second_);
  report->mutable_plan()->set_prepared_version(trainer.plan.plan().version());
  report->mutable_plan()->set_active_version(trainer.plan.plan().version());
  report->mutable_membership()->set_generation(trainer.plan.membership().generation());
  report->mutable_membership()->set_step(trainer.steps);
  const int64_t reported = trainer.steps / kFigureSteps * kFigureSteps;
  if (reported == 0) return;
  v1::RankFigures& figures = *report->mutable_figures();
  figures.set_step(reported);
  figures.set_steps(kFigureSteps);
  figures.set_training_s(kFigureSteps * step_s);
  figures.set_wall_s(kFigureSteps * step_s);
  figures.set_loss(2.5);
  figures.set_grad_norm(1.25);
  figures.set_learning_rate(0.1);
  figures.set_samples_per_s(static_cast<double>(kSamples) * steps_per_second_);
  figures.set_data_wait_share(0.02);
  figures.mutable_memory()->set_rss(1234567890);
  figures.mutable_memory()->set_rss_peak(1334567890);
  v1::LevelFigures& level = *figures.add_levels();
  level.set_group_size(trainer.plan.membership().world_size());
  level.set_gradients(true);
  level.set_count(reported);
  level.set_seconds(0.1 * step_s * static_cast<double>(reported));
  level.set_bytes(reported * 1000000);
}

int64_t SimulatedTrainers::TakeSteps(v1::NodeSteps* steps) {
  steps->clear_batches();
  int64_t taken = 0;
  for (auto& [key, trainer] : trainers_) {
    if (trainer.state == v1::TRAINER_EXITED) continue;
    const int64_t count = std::min(trainer.steps - trainer.reported, kMaxBatch);
    if (count <= 0) continue;
    v1::StepBatch& batch = *steps->add_batches();
    *batch.mutable_id() = trainer.plan.id();
    for (int64_t i = 0; i < count; ++i) {
      FillRecord(trainer, trainer.reported + i, batch.add_records());
    }
    trainer.reported += count;
    taken += count;
  }
  return taken;
}

void SimulatedTrainers::FillRecord(const Trainer& trainer, int64_t step,
                                   v1::StepRecord* record) const {
  const double step_s = 1 / steps_per_second_;
  const double own = Noise(trainer.plan.id(), step);
  record->set_step(step);
  record->set_data_wait_ns(Nanos(0.02 * step_s));
  record->set_forward_ns(Nanos(0.28 * step_s * own));
  record->set_backward_ns(Nanos(0.5 * step_s * own));
  record->set_communication_ns(Nanos(step_s * (0.93 - 0.78 * own)));
  record->set_optimizer_ns(Nanos(0.05 * step_s));
  record->set_total_ns(Nanos(step_s));
  record->set_samples(kSamples);
  record->set_loss(2.5F);
  record->set_wire_bytes(1000000);
  record->set_workload(kSamples);
  record->set_grad_norm(1.25F);
  record->set_learning_rate(0.1F);
}

int64_t SimulatedTrainers::TakeDropped() { return std::exchange(dropped_, 0); }

int SimulatedTrainers::running() const {
  return static_cast<int>(std::count_if(trainers_.begin(), trainers_.end(), [](const auto& entry) {
    return entry.second.state == v1::TRAINER_RUNNING;
  }));
}

}  // namespace paceline
