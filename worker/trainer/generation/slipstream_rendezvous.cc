#include "worker/trainer/generation/slipstream_rendezvous.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "slipstream/rendezvous.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/generation/rendezvous_rows.h"
#include "worker/trainer/generation/state_transfer.h"
#include "worker/trainer/loop/attachments.h"

namespace paceline {
namespace {

using Takes = SlipstreamDecision::Takes;

// A rank's report about itself. Sent as bytes: all ranks run the same program.
struct Row {
  bool has_trained = false;
  int64_t step = 0;  // Of the checkpoint it loaded; 0: none; negative: not loaded yet.
  RoundState rounds;
  uint64_t model = 0;  // HashOfModel.
  DataPosition data;
  DataPosition together;
  int64_t together_steps = 0;
  int64_t own_steps = 0;
  int64_t evaluated = -1;
  int64_t last_order = 0;
};

Row RowOf(const Rendezvous& rendezvous, const SlipstreamMemory& memory,
          const TrainingState& state) {
  Row row;
  row.has_trained = memory.rank.has_value();
  if (row.has_trained) row.rounds = memory.rank->state();
  row.step = state.position.step;
  row.model = HashOfModel(rendezvous.model, rendezvous.optimizer, rendezvous.attachments);
  row.data = state.data;
  row.together = state.together;
  row.together_steps = state.together_steps;
  row.own_steps = memory.own_steps;
  row.evaluated = state.position.evaluated;
  row.last_order = state.saver.last_order;
  return row;
}

// What a rank gets of what is attached.
std::vector<Attachments::Scope> TakenScopes(const Rendezvous& rendezvous, Takes takes,
                                            SlipstreamMode mode) {
  if (rendezvous.attachments == nullptr) return {};
  if (takes == Takes::kAll) return {Attachments::Scope::kShared, Attachments::Scope::kOwn};
  if (IsLocal(mode)) return {};
  return {Attachments::Scope::kShared};
}

// The tensors that a rank sends or gets; the same on both sides.
std::vector<at::Tensor> Taken(const Rendezvous& rendezvous, Takes takes, SlipstreamMode mode,
                              const SlipstreamBuffers& buffers, const RandomNumbers& random) {
  std::vector<at::Tensor> tensors{buffers.z()};
  if (rendezvous.attachments == nullptr && (takes == Takes::kAll || !IsLocal(mode))) {
    for (const at::Tensor& tensor : rendezvous.optimizer.State()) tensors.push_back(tensor);
  }
  if (takes != Takes::kAll) return tensors;
  for (const NamedTensor& buffer : rendezvous.model.buffers()) {
    if (!buffer.frozen && !buffer.tensor.is_floating_point()) tensors.push_back(buffer.tensor);
  }
  for (const at::Tensor& tensor : random.tensors()) tensors.push_back(tensor);
  return tensors;
}

void Send(const Rendezvous& rendezvous, Takes takes, SlipstreamMode mode,
          const SlipstreamBuffers& buffers, int to) {
  Group& all = rendezvous.groups.all();
  const at::Device device = rendezvous.model.device();
  const RandomNumbers random(device);
  for (const Attachments::Scope scope : TakenScopes(rendezvous, takes, mode)) {
    SendAttachment(all, *rendezvous.attachments, scope, device, to);
  }
  SendTensors(all, Taken(rendezvous, takes, mode, buffers, random), device, to);
}

void Receive(const Rendezvous& rendezvous, Takes takes, SlipstreamMode mode,
             const SlipstreamBuffers& buffers, int from) {
  Group& all = rendezvous.groups.all();
  const at::Device device = rendezvous.model.device();
  const RandomNumbers random(device);
  const std::vector<Attachments::Scope> scopes = TakenScopes(rendezvous, takes, mode);
  std::vector<Attachment> attached;
  for (const Attachments::Scope scope : scopes) {
    attached.push_back(ReceiveAttachment(all, *rendezvous.attachments, scope, device, from));
  }
  // From here on nothing fails for a rank that has a state: it has the former one, or the new one.
  ReceiveTensors(all, Taken(rendezvous, takes, mode, buffers, random), device, from,
                 /*in_place=*/takes == Takes::kAll);
  for (size_t i = 0; i < scopes.size(); ++i) rendezvous.attachments->Put(scopes[i], attached[i]);
  if (takes == Takes::kAll) random.Restore();
}

// Checks that all ranks begin from the same checkpoint.
absl::Status CheckLoaded(const std::vector<Row>& rows) {
  for (size_t rank = 1; rank < rows.size(); ++rank) {
    if (rows[rank].step == rows[0].step) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rank ", rank, " begins at step ", rows[rank].step, ", rank 0 at step ", rows[0].step,
        ": all ranks must load the same checkpoint; look whether it is the same on all nodes"));
  }
  return absl::OkStatus();
}

// The newest order that all ranks that have trained have dealt with.
int64_t LastOrder(const std::vector<Row>& rows) {
  int64_t last = std::numeric_limits<int64_t>::max();
  for (const Row& row : rows) {
    if (row.has_trained) last = std::min(last, row.last_order);
  }
  return last;
}

}  // namespace

absl::StatusOr<bool> RunSlipstreamRendezvous(const Rendezvous& rendezvous, SlipstreamMemory& memory,
                                             TrainingState& state) {
  const at::NoGradGuard no_grad;
  const at::Device device = rendezvous.model.device();
  Group& all = rendezvous.groups.all();
  const std::vector<Row> rows = GatherByRank(all, device, RowOf(rendezvous, memory, state));
  std::vector<uint64_t> models;
  std::vector<std::optional<RoundState>> reported;
  for (const Row& row : rows) {
    models.push_back(row.model);
    reported.push_back(row.has_trained ? std::optional(row.rounds) : std::nullopt);
  }
  const absl::Status same = CheckModels(models);
  if (!same.ok()) return same;
  const SlipstreamDecision decision = DecideSlipstreamRendezvous(reported);
  if (!decision.source.has_value()) {
    PACELINE_RETURN_IF_ERROR(CheckLoaded(rows));
    return true;
  }

  const Row& source = rows[static_cast<size_t>(*decision.source)];
  const SlipstreamMode mode = source.rounds.plan.mode;
  const int me = rendezvous.config.rank();
  if (memory.buffers == nullptr)
    memory.buffers = std::make_unique<SlipstreamBuffers>(rendezvous.model);
  for (int rank = 0; rank < all.size(); ++rank) {
    const Takes takes = decision.takes[static_cast<size_t>(rank)];
    if (takes == Takes::kNothing || (me != rank && me != *decision.source)) continue;
    if (me == *decision.source) {
      Send(rendezvous, takes, mode, *memory.buffers, rank);
      continue;
    }
    Receive(rendezvous, takes, mode, *memory.buffers, *decision.source);
    if (takes != Takes::kAll) continue;
    state.data = source.data;
    memory.own_steps = source.own_steps;
  }
  // With its present state, the rank is at this round, whether or not the others get there.
  const RoundState next =
      ForGeneration(source.rounds, rendezvous.config.member.generation, all.size());
  memory.Join(rendezvous.config, next);
  state.position.step = next.total.steps();
  state.together = source.together;
  state.together_steps = source.together_steps;
  state.position.evaluated = source.evaluated;
  state.saver.by_steps = {false, state.position.step};
  state.saver.last_order = LastOrder(rows);
  state.saver.last_saved = -1;
  at::Tensor sum = at::zeros({1}, at::TensorOptions().device(device));
  all.Sum(sum);  // Whoever gets it knows that all are done.
  return false;
}

}  // namespace paceline
