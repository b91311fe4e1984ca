// The steps of a simulated trainer, and what it saves at their end.
#include "tests/sim/observer.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/trainer.h"
#include "tests/sim/training.h"

namespace paceline::sim {
namespace {

constexpr Micros kFinishPatience = 20 * kSecond;

}  // namespace

void Trainer::Compute() {
  if (step() >= facts_.steps) return FinishWhenSaved();
  SetPhase(kBackward);
  computing_ = true;
  const auto mean = static_cast<double>(facts_.step_time) * node_.slowness;
  const double jitter = facts_.jitter;
  auto length = static_cast<Micros>(mean * (1 - jitter + 2 * jitter * world_.random.Unit()));
  begun_ = world_.time.now();
  stall_ = 0;
  if (facts_.stalls > 0 && world_.random.Chance(facts_.stalls)) {
    stall_ = static_cast<Micros>(mean * facts_.stall);
    if (!waits_less_) length += stall_;
  }
  Later(length, [this, run = run_] {
    if (ending_ || run != run_ || hangs_) return;
    arrived_ = world_.time.now();
    computing_ = false;
    if (is_over_) return OnCollectiveError("");
    computed_ = true;
    SetPhase(kCommunication);
    world_.training->Arrive(shared_from_this());
  });
}

// A rank that trains by a ladder or by Slipstream does not wait for others' stalls; its own stalls
// are within its step.
void Trainer::MeasureStep() {
  constexpr size_t kStepsKept = 2000;
  if (!world_.settings.stragglers || steps_.size() >= kStepsKept) return;
  const auto seconds = [](Micros micros) { return static_cast<double>(micros) / kSecond; };
  const double own_s = seconds(arrived_ - begun_ + (waits_less_ ? stall_ : 0));
  StepTimes times;
  times.step = step();
  times.forward_s = own_s / 3;
  times.backward_s = own_s - times.forward_s;
  times.communication_s = seconds(world_.time.now() - arrived_);
  times.total_s = own_s + times.communication_s;
  times.masked = std::exchange(saved_, false);
  steps_.push_back(times);
}

void Trainer::FailPlan(int64_t version) {
  if (ending_ || status_.plan.failed.value() == version) return;
  world_.trace.Add(name(), " cannot prepare plan version ", version);
  status_.plan.failed = PlanVersion(version);
  status_.plan.error = "no port is free";
  Tell();
}

void Trainer::CompleteStep(const TakenPlan& plan, int64_t save_order, bool leaves) {
  if (ending_) return;
  DoStep();
  EndStep(plan, save_order, leaves);
}

void Trainer::DoStep() {
  computed_ = false;
  MeasureStep();
  ++steps_made_;
  ++status_.progress.step;
}

void Trainer::EndStep(const TakenPlan& plan, int64_t save_order, bool leaves) {
  if (status_.plan.active.value() != plan.version) {
    waits_less_ = plan.waits_less;
    status_.plan.prepared = status_.plan.active = PlanVersion(plan.version);
    status_.plan.active_since_step = step();
    Tell();
  }
  const bool by_steps =
      facts_.every_steps > 0 && (step() % facts_.every_steps == 0 || step() == facts_.steps);
  if (!facts_.directory.empty() && (save_order != 0 || by_steps)) Save(save_order);
  if (leaves && !is_over_ && step() < facts_.steps) {
    ++run_;
    SetPhase(kIdle);
    if (facts_.shards > 1) NoteExchange();
    membership_.OnLeft(Clock());
    world_.trace.Add(name(), " leaves with the others after step ", step());
    if (order_.rank < 0 && order_.hand_over >= 0) world_.training->HandOver(shared_from_this());
    Tell();
    return Act();
  }
  GoOn();
}

void Trainer::GoOn() {
  Act();
  if (is_over_) return;
  if (!AwaitsMean()) {
    if (facts_.copy_every > 0) world_.training->CopyState(shared_from_this());
    return Compute();
  }
  SetPhase(kCommunication);
  world_.training->AwaitMean(shared_from_this());
}

void Trainer::FinishWhenSaved() {
  if (ending_ || part_.lost || AwaitsMean() || status_.state == TrainerState::kFinished) return;
  SetPhase(kIdle);
  const bool saving =
      std::any_of(status_.saves.begin(), status_.saves.end(), [this](const SaveStatus& save) {
        return save.generation.value() == membership_.present() &&
               (save.state == SaveState::kWriting ||
                (save.state == SaveState::kDurable && order_.rank == 0));
      });
  if (saving && !finishing_) {
    finishing_ = true;
    Later(kFinishPatience, [this] {
      if (step() < facts_.steps) return;
      status_.saves.clear();
      FinishWhenSaved();
    });
  }
  if (saving) return;
  status_.state = TrainerState::kFinished;
  world_.observer->OnFinished(*this);
  Tell();
  ending_ = true;
  Later(20 * kMilli, [this] {
    Remains remains;
    remains.seen = true;
    remains.finished = true;
    End(remains, true);
  });
}

}  // namespace paceline::sim
