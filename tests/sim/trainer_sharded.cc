// What a trainer does with its state, above all its part of a sharded model, as TrainerRun,
// RunRendezvous and TrainLoop do.
#include <algorithm>
#include <utility>

#include "tests/sim/trainer.h"

namespace paceline::sim {

void Trainer::TakePosition(int position) {
  if (part_.position == -1 || part_.position == position) return;
  world_.trace.Add(name(), " moves to position ", position);
  GiveUpState(std::max(part_.at.generation, part_.at.decided));
}

void Trainer::Prepare(bool mean, uint64_t result) {
  RankPosition& at = part_.at;
  if (mean) {
    at.mean_prepared = true;
  } else {
    at.computed = at.prepared = true;
  }
  part_.result = result;
}

bool Trainer::SharesMeanAfter(int64_t step) const {
  return facts_.mean_period > 0 && step % facts_.mean_period == 0 && step > part_.at.alone_below &&
         step < facts_.steps;
}

// The last mean is of all ranks, whatever was left out before.
bool Trainer::AwaitsMean() const {
  return facts_.mean_period > 0 &&
         (!part_.at.exchanged || (step() >= facts_.steps && !part_.at.final_mean));
}

void Trainer::ApplyStep() {
  DoStep();
  part_.state = StateAfter(part_.state, part_.result);
  RankPosition& at = part_.at;
  at.step = step();
  at.computed = at.prepared = at.left_out = false;
  at.exchanged = !SharesMeanAfter(step());
}

void Trainer::ApplyMean() {
  part_.state = part_.result;
  RankPosition& at = part_.at;
  at.mean_prepared = false;
  if (std::exchange(at.exchanged, true)) ++at.means;
  at.final_mean = step() >= facts_.steps;
}

void Trainer::NoteExchange() {
  RankPosition& at = part_.at;
  const bool shares = SharesMeanAfter(at.prepared ? step() + 1 : step());
  at.exchange = shares ? RankRange{0, part_.ranks} : RankRange();
}

void Trainer::UndoStep() {
  computed_ = false;
  part_.at.computed = part_.at.prepared = false;
}

void Trainer::TakeOver(const Trainer& leaver, const RankPosition& at) {
  world_.trace.Add(name(), " takes over the state of ", leaver.name(), " at step ", leaver.step());
  computed_ = false;
  status_.progress.step = leaver.step();
  part_ = leaver.part();
  taken_ = at;
}

void Trainer::GiveUpState(int64_t decided) {
  computed_ = false;
  taken_ = RankPosition();
  part_ = ModelPart();
  part_.lost = true;
  part_.at.decided = decided;
}

void Trainer::TakeCopy(int position, uint64_t state, const RankPosition& at) {
  computed_ = false;
  part_ = ModelPart();
  part_.position = position;
  part_.copied = true;
  part_.state = state;
  part_.at = at;
  status_.progress.step = at.step;
}

void Trainer::FailRendezvous(const std::string& why) { Exit(FailureKind::kError, why); }

}  // namespace paceline::sim
