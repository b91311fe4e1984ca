#include "worker/trainer/generation/auto_rendezvous.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/generation/rendezvous_rows.h"
#include "worker/trainer/generation/slipstream_rendezvous.h"
#include "worker/trainer/generation/state_transfer.h"
#include "worker/trainer/slipstream/optimizer_state.h"

namespace paceline {
namespace {

// A rank's report about itself. Sent as bytes: all ranks run the same program.
struct KindRow {
  int64_t generation = 0;  // In which it last trained; 0: none.
  bool slipstream = false;
};

// The kind of the training's state.
struct StateKind {
  int64_t generation = 0;  // 0: nobody has trained.
  bool slipstream = false;
};

StateKind KindOf(const std::vector<KindRow>& rows, bool planned) {
  StateKind kind;
  for (const KindRow& row : rows) kind.generation = std::max(kind.generation, row.generation);
  if (kind.generation == 0) return {0, planned};
  kind.slipstream = std::any_of(rows.begin(), rows.end(), [&](const KindRow& row) {
    return row.generation == kind.generation && row.slipstream;
  });
  return kind;
}

void Forget(TrainingState& state) {
  state.position = RankPosition();
  state.in_step = state.is_open = false;
  EndSlipstream(state.slipstream);
}

// Averages over all ranks the optimizer's state that each has for itself.
void AverageOptimizer(const Rendezvous& rendezvous) {
  OptimizerState state(rendezvous.optimizer);
  const at::Tensor flat = state.Fill(/*has_state=*/true);
  if (flat.numel() == 0) return;
  rendezvous.groups.all().Sum(flat);
  state.Apply(rendezvous.groups.all().size());
}

// Makes equal what ranks have had for themselves: by the mean, or by rank 0's where a mean makes no
// sense. `local`: also the optimizer's state.
void UniteState(const Rendezvous& rendezvous, bool local) {
  if (local && rendezvous.optimizer.CheckMean().ok()) AverageOptimizer(rendezvous);
  if (rendezvous.attachments == nullptr) return;
  CopyOptimizerFromFirst(rendezvous.groups.all(), rendezvous.optimizer, rendezvous.attachments,
                         rendezvous.model.device(), rendezvous.config.rank());
}

// Turns the state after RunSlipstreamRendezvous into one of ranks that keep together.
void LeaveSlipstream(const Rendezvous& rendezvous, int64_t generation, TrainingState& state) {
  SlipstreamMemory& memory = state.slipstream;
  memory.buffers->Copy(ComputeOrder::Copy::kLoad, memory.rank->buffers());
  memory.buffers->DropGradients();
  UniteState(rendezvous, IsLocal(memory.rank->state().plan.mode));
  const int64_t evaluated = state.position.evaluated;
  const int64_t step = state.position.step;
  const int ranks = rendezvous.groups.all().size();
  state.position = RankPosition();
  state.position.generation = generation;
  state.position.step = step;
  state.position.evaluated = evaluated;
  state.position.rank = rendezvous.config.rank();
  state.position.gradients = {0, ranks};
  state.position.exchange = {rendezvous.config.rank(), 1};
  state.position.layout = LayoutOf(rendezvous.config.member, rendezvous.plan);
  state.data = state.together;
  state.member = rendezvous.config.member;
  state.in_step = state.is_open = false;
  EndSlipstream(memory);
}

}  // namespace

void EndSlipstream(SlipstreamMemory& memory) {
  memory.rank.reset();
  memory.buffers.reset();
  memory.figures = SlipstreamFigures();
}

absl::StatusOr<bool> RunAutoRendezvous(const Rendezvous& rendezvous, TrainingState& state) {
  const at::NoGradGuard no_grad;
  const KindRow own{state.position.generation, state.slipstream.rank.has_value()};
  const bool planned = rendezvous.plan.slipstream.has_value();
  const StateKind kind =
      KindOf(GatherByRank(rendezvous.groups.all(), rendezvous.model.device(), own), planned);
  const bool is_of_other_kind = own.generation > 0 && own.slipstream != kind.slipstream;
  if (is_of_other_kind) Forget(state);
  PACELINE_ASSIGN_OR_RETURN(const bool begins,
                            kind.slipstream
                                ? RunSlipstreamRendezvous(rendezvous, state.slipstream, state)
                                : RunRendezvous(rendezvous, state));
  if (begins || kind.slipstream == planned) return begins;
  PACELINE_LOG(INFO) << "strategy_changed generation=" << rendezvous.config.member.generation
                     << " step=" << state.position.step
                     << (planned ? " from=ddp to=slipstream" : " from=slipstream to=ddp");
  if (planned) {
    state.is_open = false;  // That step is done; its times are not reported.
    return false;
  }
  LeaveSlipstream(rendezvous, kind.generation, state);
  return RunRendezvous(rendezvous, state);
}

}  // namespace paceline
