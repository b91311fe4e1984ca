// What a trainer does with its part of a sharded model.
#include "tests/sim/trainer.h"

namespace paceline::sim {

void Trainer::MoveTo(int position) {
  if (!has_trained() || part_.lost || part_.position == position) return;
  world_.trace.Add(name(), " moves to position ", position);
  computed_ = false;
  part_ = ModelPart();
  part_.lost = true;
}

void Trainer::Prepare(bool mean, uint64_t result) {
  (mean ? part_.mean_prepared : part_.prepared) = true;
  part_.result = result;
}

bool Trainer::SharesMeanAfter(int64_t step) const {
  return facts_.mean_period > 0 && step % facts_.mean_period == 0 && step > part_.alone_below &&
         step < facts_.steps;
}

// The last mean is of all ranks, whatever was left out before.
bool Trainer::AwaitsMean() const {
  return facts_.mean_period > 0 &&
         (!part_.exchanged || (step() >= facts_.steps && !part_.final_mean));
}

void Trainer::ApplyStep() {
  DoStep();
  part_.state = StateAfter(part_.state, part_.result);
  part_.prepared = false;
  part_.exchanged = !SharesMeanAfter(step());
}

void Trainer::ApplyMean() {
  part_.state = part_.result;
  part_.mean_prepared = false;
  part_.exchanged = true;
  part_.final_mean = step() >= facts_.steps;
}

void Trainer::CarryOut(bool decided, int rank, bool receives) {
  computed_ = false;
  part_.prepared = part_.mean_prepared = false;
  if (receives) {
    part_ = ModelPart();
    part_.lost = true;
  } else if (decided) {
    part_.decided = membership_.present();
    part_.decided_rank = rank;
  }
}

void Trainer::FailRendezvous(const std::string& why) { Exit(FailureKind::kError, why); }

}  // namespace paceline::sim
