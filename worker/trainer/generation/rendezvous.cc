#include "worker/trainer/generation/rendezvous.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checksum.h"
#include "common/core/status_macros.h"
#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/core/save_count.h"
#include "worker/trainer/core/sharded_rendezvous.h"
#include "worker/trainer/generation/rendezvous_rows.h"
#include "worker/trainer/generation/state_transfer.h"
#include "worker/trainer/generation/stream_gifts.h"
#include "worker/trainer/generation/whole_state.h"
#include "worker/trainer/loop/compensated_update.h"
#include "worker/trainer/loop/gradients.h"

namespace paceline {
namespace {

// The exchanges of one rendezvous, and the state that they change.
class Transfers {
 public:
  // `rows`: as changed by Foresee.
  Transfers(const Rendezvous& rendezvous, const std::vector<RendezvousRow>& rows,
            const RendezvousDecision& decision, TrainingState& state)
      : rendezvous_(rendezvous), rows_(rows), decision_(decision), state_(state) {}

  void Make(const Transfer& transfer) {
    const int me = rendezvous_.config.rank();
    if (transfer.from != me && transfer.to != me) return;
    const bool receives = transfer.to == me;
    const int peer = receives ? transfer.from : transfer.to;
    switch (transfer.what) {
      case Transfer::What::kAll:
        return receives ? ReceiveAll(peer) : SendAll(peer);
      case Transfer::What::kStep:
        return receives ? ReceiveStep(peer) : SendStep(peer);
      case Transfer::What::kMean:
        return receives ? ReceiveMean(peer) : SendMean(peer);
      case Transfer::What::kOwnStep:
      case Transfer::What::kOwnMean:
        return;  // ApplyOwn
    }
  }

  // With shards: applies what this rank is prepared with, if the decision says so. `reported`: the
  // rows before Foresee.
  absl::Status ApplyOwn(const std::vector<RendezvousRow>& reported) {
    for (const Transfer& transfer : decision_.transfers) {
      if (transfer.to != rendezvous_.config.rank()) continue;
      if (transfer.what == Transfer::What::kOwnStep) {
        PACELINE_RETURN_IF_ERROR(ApplyStep(reported[static_cast<size_t>(transfer.from)]));
      }
      if (transfer.what == Transfer::What::kOwnMean) ApplyMean();
    }
    return absl::OkStatus();
  }

 private:
  const RendezvousRow& RowAt(int rank) const { return rows_[static_cast<size_t>(rank)]; }
  at::Device device() const { return rendezvous_.model.device(); }
  void Send(const std::vector<at::Tensor>& tensors, int to) const {
    SendTensors(rendezvous_.groups.all(), tensors, device(), to);
  }
  void Receive(const std::vector<at::Tensor>& tensors, int from, bool in_place) const {
    ReceiveTensors(rendezvous_.groups.all(), tensors, device(), from, in_place);
  }

  void SendAttached(Attachments::Scope scope, int to) const {
    if (rendezvous_.attachments == nullptr) return;
    SendAttachment(rendezvous_.groups.all(), *rendezvous_.attachments, scope, device(), to);
  }
  // The caller puts it, by Put.
  Attachment ReceiveAttached(Attachments::Scope scope, int from) const {
    if (rendezvous_.attachments == nullptr) return {};
    return ReceiveAttachment(rendezvous_.groups.all(), *rendezvous_.attachments, scope, device(),
                             from);
  }
  void Put(Attachments::Scope scope, const Attachment& attachment) const {
    if (rendezvous_.attachments != nullptr) rendezvous_.attachments->Put(scope, attachment);
  }

  void SendAll(int to) const {
    SendWholeState(rendezvous_.groups.all(), device(), rendezvous_, state_, to);
  }

  void ReceiveAll(int from) {
    state_.position = RankPosition();  // It has none until all ranks have theirs.
    state_.checkpoint.reset();         // Momenta and rounding errors are the sender's, too.
    const int me = rendezvous_.config.rank();
    if (After(me).generation > 0) state_.position.decided = rendezvous_.config.member.generation;
    ReceiveWholeState(rendezvous_.groups.all(), device(), rendezvous_, RowAt(from), state_, from);
  }

  void SendStep(int to) const {
    SendAttached(Attachments::Scope::kShared, to);
    Send(StepTensors(rendezvous_), to);
  }

  // Keeps this rank's result of the step, except the norm of the gradients, which all ranks share.
  void ReceiveStep(int from) {
    const Attachment attachment = ReceiveAttached(Attachments::Scope::kShared, from);
    // From here on nothing fails: the state is that before the step, or that after it.
    Receive(StepTensors(rendezvous_), from, /*in_place=*/false);
    Put(Attachments::Scope::kShared, attachment);
    for (const NamedTensor& parameter : rendezvous_.model.parameters()) {
      parameter.tensor.mutable_grad() = at::Tensor();
    }
    const RendezvousRow& source = RowAt(from);
    if (source.stream.begun < 0 && !state_.memory.levels.empty()) {
      StreamMemory& stream = state_.memory.levels.back().stream;
      stream.position.begun = -1;
      stream.sent = at::Tensor();
    }
    state_.data = state_.open_data;
    state_.in_step = false;
    state_.open_result.grad_norm =
        at::tensor({source.grad_norm}, at::kFloat).squeeze().to(device());
    // Kept even if this rendezvous fails.
    RankPosition& position = state_.position;
    position.step = source.position.step;
    position.exchanged = source.position.exchanged;
    position.exchange = source.position.exchange;
    position.computed = false;
    state_.memory.all_equal = source.all_equal;
  }

  // `source`: of a rank that has done the step, and knows the norm of all gradients.
  absl::Status ApplyStep(const RendezvousRow& source) {
    const std::vector<at::Tensor> parameters = TensorsOf(rendezvous_.model.parameters());
    const GradientNorms norms =
        ClipPart(parameters, NormsOfGradients(parameters), source.word_norm, state_.max_norm);
    const bool ignores = rendezvous_.config.on_nonfinite == NonFinite::kIgnore;
    PACELINE_RETURN_IF_ERROR(
        rendezvous_.finish_update(ignores ? at::Tensor() : NotFinite(norms.total)));
    state_.word_norm = source.word_norm;
    state_.data = state_.open_data;
    state_.in_step = false;
    state_.open_result.grad_norm = norms.total;
    RankPosition& position = state_.position;
    ++position.step;
    position.exchanged = position.exchange.size <= 1;
    position.computed = position.prepared = false;
    state_.memory.all_equal = source.all_equal;
    return absl::OkStatus();
  }

  void ApplyMean() {
    const int me = rendezvous_.config.rank();
    RankPosition& position = state_.position;
    const at::Tensor& mean = state_.memory.mean;
    if (mean.defined() && state_.memory.mean_step == position.step) {
      PutMean(mean, MeanParts(/*with_state=*/mean.numel() > CountParameters(rendezvous_)));
      PutMomentum();
      CountAsSent();
      state_.memory.equal = RowAt(me).equal;
    }
    position.exchanged = true;
    position.means = After(me).means;
    position.final_mean = After(me).final_mean;
    position.mean_prepared = false;
    // A new plan may begin with the next step.
    position.gradients = RankRange();
  }

  const RankPosition& After(int rank) const {
    return decision_.positions[static_cast<size_t>(rank)];
  }

  void SendMean(int to) const {
    const RendezvousRow& own = RowAt(rendezvous_.config.rank());
    if (!HasMean(own, After(to))) return;
    std::vector<at::Tensor> result{state_.memory.mean};
    if (own.mean_outer >= 0) result.push_back(state_.memory.mean_momentum);
    Send(result, to);
  }

  void ReceiveMean(int from) {
    const int me = rendezvous_.config.rank();
    if (HasMean(RowAt(from), After(me))) TakeMean(from);
    state_.position.exchanged = true;
    state_.position.final_mean = After(me).final_mean;
  }

  void TakeMean(int from) {
    const RendezvousRow& source = RowAt(from);
    const std::vector<at::Tensor> parts =
        MeanParts(rendezvous_.config.strategy.average_optimizer_state);
    int64_t values = 0;
    for (const at::Tensor& part : parts) values += part.numel();
    const auto type = source.mean_bytes == values * 4 ? at::kFloat : at::kDouble;
    const auto options = at::TensorOptions().dtype(type).device(device());
    const at::Tensor mean = at::empty({values}, options);
    std::vector<at::Tensor> result{mean};
    if (source.mean_outer >= 0) {
      result.push_back(at::empty({CountParameters(rendezvous_)}, options.dtype(at::kFloat)));
    }
    Receive(result, from, /*in_place=*/false);
    PutMean(mean, parts);
    state_.memory.mean_outer = source.mean_outer;
    state_.memory.mean_momentum = source.mean_outer >= 0 ? result.back() : at::Tensor();
    PutMomentum();
    CountAsSent();
    state_.memory.equal = RowAt(rendezvous_.config.rank()).equal;
    state_.memory.mean = mean;  // It may have to be passed on.
    state_.memory.mean_step = source.mean_step;
  }

  // What this rank had sent to the mean has arrived. (A mean beside a streamed level is a plain
  // one, which drops what was sent to the average under way.)
  void CountAsSent() {
    if (IsStreamed(rendezvous_.plan)) return;
    for (StrategyMemory::Level& level : state_.memory.levels) level.before.reset();
  }

  // That of the latest mean, if it ended in an outer step.
  void PutMomentum() {
    StrategyMemory& memory = state_.memory;
    if (memory.mean_outer < 0) return;
    const auto level = static_cast<size_t>(memory.mean_outer);
    if (memory.levels.size() <= level) memory.levels.resize(level + 1);
    memory.levels[level].momentum = memory.mean_momentum;
  }

  // The tensors of which an exchange takes the mean, in the order of its result. `with_state`: also
  // the optimizer's.
  std::vector<at::Tensor> MeanParts(bool with_state) const {
    std::vector<at::Tensor> parts = TensorsOf(rendezvous_.model.parameters());
    if (!with_state) return parts;
    for (const at::Tensor& tensor : AveragedState(rendezvous_.optimizer)) parts.push_back(tensor);
    return parts;
  }

  // `mean`: the parts' values, flat; further values are ignored.
  void PutMean(const at::Tensor& mean, const std::vector<at::Tensor>& parts) const {
    const std::vector<at::Tensor> compensation = CompensationOf(rendezvous_.optimizer);
    int64_t offset = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const at::Tensor part = parts[i].detach();
      const at::Tensor value = mean.narrow(0, offset, part.numel()).view(part.sizes());
      if (i < compensation.size()) {
        SetWeights(value, {part, compensation[i]});
      } else {
        part.copy_(value);
      }
      offset += part.numel();
    }
  }

  const Rendezvous& rendezvous_;
  const std::vector<RendezvousRow>& rows_;
  const RendezvousDecision& decision_;
  TrainingState& state_;
};

// All ranks take the order of the first rank that knows it, so that all arrange their buckets
// alike. The sum ends the rendezvous: whoever gets it knows that all have what they need.
void ShareOrder(const Rendezvous& rendezvous, const std::vector<RendezvousRow>& rows, bool counts,
                std::vector<int64_t>* order) {
  const auto parameters = static_cast<int64_t>(rendezvous.model.parameters().size());
  const auto first = std::find_if(rows.begin(), rows.end(),
                                  [](const RendezvousRow& row) { return row.has_order; });
  at::Tensor shared = at::zeros({parameters}, at::kLong);
  int64_t* const values = shared.mutable_data_ptr<int64_t>();
  if (first - rows.begin() == rendezvous.config.rank()) {
    std::copy(order->begin(), order->end(), values);
  }
  at::Tensor summed = shared.to(rendezvous.model.device());
  rendezvous.groups.all().Sum(summed);
  shared = summed.cpu();
  order->clear();
  if (!counts || first == rows.end()) return;
  order->assign(shared.const_data_ptr<int64_t>(), shared.const_data_ptr<int64_t>() + parameters);
}

int64_t LastOrderOfAll(const std::vector<RendezvousRow>& rows) {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (const RendezvousRow& row : rows) {
    if (row.position.generation > 0) last = std::min(last, row.last_order);
  }
  return last == std::numeric_limits<int64_t>::max() ? 0 : last;
}

SaveCount SavesOfAll(const Rendezvous& rendezvous, const std::vector<RendezvousRow>& rows,
                     int64_t furthest) {
  std::vector<SaveCount> reported;
  for (const RendezvousRow& row : rows) reported.push_back(row.saves);
  return AgreeOnSaves(reported, rendezvous.config.checkpoint.every_steps, furthest);
}

// Some ranks may have missed exchanges that others made. The last level's momentum stays: a mean of
// all ranks follows (StrategyStart::regrouped).
void ForgetExchanges(const std::vector<RendezvousRow>& rows, TrainingState& state) {
  StrategyMemory& memory = state.memory;
  memory.all_equal =
      std::all_of(rows.begin(), rows.end(), [](const RendezvousRow& row) { return row.all_equal; });
  const at::Tensor momentum = memory.levels.empty() ? at::Tensor() : memory.levels.back().momentum;
  memory.levels.clear();
  if (momentum.defined()) memory.levels.emplace_back().momentum = momentum;
  memory.equal = {};
}

absl::Status CheckReported(const std::vector<RendezvousRow>& reported, int shards) {
  std::vector<uint64_t> models;
  std::vector<uint64_t> names;
  for (const RendezvousRow& row : reported) {
    models.push_back(row.model);
    names.push_back(row.names);
  }
  PACELINE_RETURN_IF_ERROR(CheckModels(names));
  return CheckModels(models, shards);
}

absl::StatusOr<RendezvousDecision> Decide(const Rendezvous& rendezvous,
                                          const std::vector<RankPosition>& positions,
                                          const std::vector<uint64_t>& layouts) {
  std::vector<std::vector<int>> groups;
  for (const PlanLevel& level : rendezvous.plan.levels) groups.push_back(level.groups);
  if (!groups.empty() && !rendezvous.plan.gradient_groups.empty()) {
    groups.push_back(rendezvous.plan.gradient_groups);
  }
  const int shards = rendezvous.config.member.shards;
  if (shards == 1) return DecideRendezvous(positions, layouts, groups);
  const bool ddp = rendezvous.config.strategy.kind == StrategyConfig::Kind::kDdp;
  if (groups.empty() && !ddp) groups.push_back({static_cast<int>(positions.size()) / shards});
  return DecideShardedRendezvous(positions, layouts, groups, shards);
}

// What the members decide by their reports. Changes `rows`, at first as reported, to the state
// after the transfers, unless the training begins.
absl::StatusOr<RendezvousDecision> DecideTogether(const Rendezvous& rendezvous,
                                                  std::vector<RendezvousRow>* rows) {
  std::vector<RankPosition> positions;
  std::vector<uint64_t> layouts;
  for (const RendezvousRow& row : *rows) {
    positions.push_back(row.position);
    layouts.push_back(row.layout);
  }
  PACELINE_ASSIGN_OR_RETURN(RendezvousDecision decision, Decide(rendezvous, positions, layouts));
  if (decision.begins) return decision;
  Foresee(decision, rows);
  if (!decision.same_groups ||
      ReferencesAgree(*rows, decision, rendezvous.plan, rendezvous.config.member.lanes())) {
    return decision;
  }
  for (RankPosition& one : positions) one.layout = 0;
  return Decide(rendezvous, positions, layouts);
}

bool Takes(const RendezvousDecision& decision, Transfer::What what, int rank) {
  return std::any_of(
      decision.transfers.begin(), decision.transfers.end(),
      [what, rank](const Transfer& one) { return one.what == what && one.to == rank; });
}

}  // namespace

uint64_t LayoutOf(const Member& member, const TrainingPlan& plan) {
  TrainingPlan timeless = plan;
  timeless.version = 1;
  return ChecksumOf(absl::StrCat(member.rank, "/", member.world_size, " ", EncodePlan(timeless)));
}

absl::StatusOr<bool> RunRendezvous(const Rendezvous& rendezvous, TrainingState& state) {
  const at::NoGradGuard no_grad;
  const Member& member = rendezvous.config.member;
  const std::vector<RendezvousRow> reported = GatherRows(rendezvous, state);
  PACELINE_RETURN_IF_ERROR(CheckReported(reported, member.shards));
  std::vector<RendezvousRow> rows = reported;
  PACELINE_ASSIGN_OR_RETURN(const RendezvousDecision decision, DecideTogether(rendezvous, &rows));
  state.furthest = 0;
  for (const RankPosition& one : decision.positions) {
    state.furthest = std::max(state.furthest, one.step);
  }
  if (decision.begins) return true;

  const auto me = static_cast<size_t>(member.rank);
  RankPosition after = decision.positions[me];
  const bool completes_step = Takes(decision, Transfer::What::kStep, member.rank) ||
                              Takes(decision, Transfer::What::kOwnStep, member.rank);
  if (state.in_step && !completes_step) {
    rendezvous.undo->Undo();
    state.in_step = state.is_open = state.position.computed = state.position.prepared = false;
    at::Tensor& before = state.memory.gradient_rest_before;
    if (before.defined()) state.memory.gradient_rest = before;  // Its mean will be repeated.
  }
  Transfers transfers(rendezvous, rows, decision, state);
  PACELINE_RETURN_IF_ERROR(transfers.ApplyOwn(reported));
  if (member.shards > 1) {
    after.decided = member.generation;
    after.decided_rank = member.rank;
    if (!decision.same_groups) after.layout = 0;
    if (!Takes(decision, Transfer::What::kAll, member.rank)) {
      // Also if this rendezvous fails: others may have carried its decision out.
      if (reported[me].position.alone_below <= after.step) state.alone_as = state.member;
      state.position = after;
    }
  }
  for (const Transfer& transfer : decision.transfers) transfers.Make(transfer);
  state.memory.all_equal = rows[me].all_equal;
  state.regrouped = !decision.same_groups;
  if (state.regrouped) {
    ForgetExchanges(rows, state);
    after.layout = 0;  // Stays true if this rendezvous fails.
  } else {
    AgreeOnStream(rendezvous, rows, state);
  }
  if (reported[me].position.alone_below <= after.step) state.alone_as = state.member;
  const bool has_state = state.position.step >= 0;
  if (has_state) state.position = after;
  const bool steps_done = std::any_of(decision.positions.begin(), decision.positions.end(),
                                      [](const RankPosition& one) { return one.step > 0; });
  ShareOrder(rendezvous, reported, steps_done, &state.memory.gradient_order);
  if (!has_state) state.alone_as = rendezvous.config.member;
  // What some ranks have not begun, all begin again; also the save at the end.
  state.saver.by_steps = SavesOfAll(rendezvous, rows, state.furthest);
  state.saver.asked = false;
  state.saver.last_order = LastOrderOfAll(rows);
  state.saver.last_saved = -1;
  state.position = after;
  return false;
}

}  // namespace paceline
