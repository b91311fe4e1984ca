#include "worker/trainer/generation/rendezvous_rows.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/checksum.h"

namespace paceline {
namespace {

// Whether the exchange for which the rank is prepared is one of parameters, not of figures only.
bool IsOfParameters(const RendezvousRow& row) {
  return row.mean_bytes > 0 && row.mean_step == row.position.step;
}

void Invalidate(std::array<int64_t, kMaxLevels>* references) {
  for (int64_t& number : *references) number = number == 0 ? 0 : -1;
}

// By rank: the one whose whole state it has after the transfers.
std::vector<int> OriginsOf(const RendezvousDecision& decision, size_t ranks) {
  std::vector<int> origins(ranks);
  std::iota(origins.begin(), origins.end(), 0);
  for (const Transfer& transfer : decision.transfers) {
    if (transfer.what != Transfer::What::kAll) continue;
    origins[static_cast<size_t>(transfer.to)] = origins[static_cast<size_t>(transfer.from)];
  }
  return origins;
}

// The group of each replica, in replicas; without shards, of each rank.
std::vector<RankRange> GroupByReplica(const PlanLevel& level) {
  std::vector<RankRange> groups;
  for (const int size : level.groups) {
    const RankRange group{static_cast<int>(groups.size()), size};
    groups.insert(groups.end(), static_cast<size_t>(size), group);
  }
  return groups;
}

}  // namespace

uint64_t HashOfModel(const ModelTensors& model, const Optimizer& optimizer,
                     const Attachments* attachments) {
  std::string text;
  const auto add = [&](const std::string& name, const at::Tensor& tensor) {
    absl::StrAppend(&text, name, static_cast<int>(tensor.scalar_type()));
    for (const int64_t size : tensor.sizes()) absl::StrAppend(&text, " ", size);
  };
  for (const NamedTensor& one : model.parameters()) add(one.name, one.tensor);
  for (const NamedTensor& one : model.buffers()) add(one.name, one.tensor);
  if (attachments != nullptr) {
    absl::StrAppend(&text, attachments->Names());
  } else {
    for (const OptimizerSlot& slot : optimizer.Slots()) absl::StrAppend(&text, slot.name);
  }
  return ChecksumOf(text);
}

uint64_t HashOfNames(const ModelTensors& model) {
  std::string text;
  for (const NamedTensor& one : model.parameters()) absl::StrAppend(&text, one.name, "\n");
  return ChecksumOf(text);
}

absl::Status CheckModels(const std::vector<uint64_t>& hashes, int shards) {
  for (size_t rank = 0; rank < hashes.size(); ++rank) {
    const size_t first = rank % static_cast<size_t>(shards);  // Of its position.
    if (hashes[rank] == hashes[first]) continue;
    return absl::InvalidArgumentError(absl::StrCat("the model of rank ", rank,
                                                   " is not that of rank ", first,
                                                   ": files that the job "
                                                   "names, or its script, differ between the "
                                                   "nodes"));
  }
  return absl::OkStatus();
}

RendezvousRow RowOf(const Rendezvous& rendezvous, const TrainingState& state) {
  const StrategyMemory& memory = state.memory;
  RendezvousRow row;
  row.position = state.position;
  row.layout = LayoutOf(rendezvous.config.member, rendezvous.plan);
  row.model = HashOfModel(rendezvous.model, rendezvous.optimizer, rendezvous.attachments);
  row.names = HashOfNames(rendezvous.model);
  row.data = state.data;
  row.open_data = state.open_data;
  if (state.is_open && state.open_result.grad_norm.defined()) {
    row.grad_norm = state.open_result.grad_norm.item<double>();
  }
  row.word_norm = state.word_norm;
  row.mean_step = memory.mean_step;
  if (memory.mean.defined()) {
    row.mean_bytes = static_cast<int64_t>(memory.mean.nbytes());
    row.mean_outer = memory.mean_outer;
  }
  row.all_equal = memory.all_equal;
  row.equal = memory.equal;
  const size_t levels = std::min(memory.levels.size(), kMaxLevels);
  row.levels = static_cast<int>(levels);
  for (size_t i = 0; i < levels; ++i) {
    if (memory.levels[i].reference.defined()) {
      row.references[i] = memory.levels[i].reference_number;
    }
    row.momenta[i] = memory.levels[i].momentum.defined();
  }
  if (!memory.levels.empty()) {
    const StreamMemory& stream = memory.levels.back().stream;
    row.stream = stream.position;
    if (stream.sent.defined()) row.stream_values = stream.sent.numel();
  }
  row.has_order = !memory.gradient_order.empty();
  row.saves = state.saver.by_steps;
  row.saves.due = row.saves.due || state.saver.asked;
  row.last_order = state.saver.last_order;
  return row;
}

std::vector<RendezvousRow> GatherRows(const Rendezvous& rendezvous, const TrainingState& state) {
  return GatherByRank(rendezvous.groups.all(), rendezvous.model.device(), RowOf(rendezvous, state));
}

bool HasMean(const RendezvousRow& from, const RankPosition& to) {
  return from.mean_bytes > 0 && from.mean_step >= to.step;
}

void Foresee(const RendezvousDecision& decision, std::vector<RendezvousRow>* rows) {
  for (const Transfer& transfer : decision.transfers) {
    const RendezvousRow& from = (*rows)[static_cast<size_t>(transfer.from)];
    RendezvousRow& to = (*rows)[static_cast<size_t>(transfer.to)];
    const RankPosition& after = decision.positions[static_cast<size_t>(transfer.to)];
    switch (transfer.what) {
      case Transfer::What::kAll: {
        const RankPosition position = to.position;
        to = from;
        to.position = position;
        break;
      }
      case Transfer::What::kStep:
      case Transfer::What::kOwnStep:
        to.data = to.open_data;
        to.all_equal = from.all_equal;
        // Its parameters have been moved to the point already.
        if (from.stream.begun < 0) {
          to.stream.begun = -1;
          to.stream_values = 0;
        }
        break;
      case Transfer::What::kOwnMean:
        if (!IsOfParameters(to)) break;
        to.equal =
            to.position.exchanged ? RankRange{0, static_cast<int>(rows->size())} : after.exchange;
        break;
      case Transfer::What::kMean:
        if (!HasMean(from, after)) break;
        to.equal = after.final_mean && !to.position.final_mean
                       ? RankRange{0, static_cast<int>(rows->size())}
                       : after.exchange;
        // The others do not refer to a later mean.
        if (from.mean_step > after.step) Invalidate(&to.references);
        break;
    }
  }
}

bool ReferencesAgree(const std::vector<RendezvousRow>& rows, const RendezvousDecision& decision,
                     const TrainingPlan& plan, const Lanes& lanes) {
  const std::vector<int> origins = OriginsOf(decision, rows.size());
  for (size_t level = 0; level < std::min(plan.levels.size(), kMaxLevels); ++level) {
    const std::vector<RankRange> groups = GroupByReplica(plan.levels[level]);
    const auto group_of = [&](int rank) -> const RankRange& {
      return groups[static_cast<size_t>(lanes.ReplicaOf(rank))];
    };
    // Its number after the transfers, and the group that it was of.
    const auto reference_of = [&](int rank) {
      const RendezvousRow& row = rows[static_cast<size_t>(rank)];
      int64_t number = row.references[level];
      if (number == 0) return std::pair<int64_t, int>(0, 0);
      const int first = lanes.RankOf(group_of(rank).first, lanes.PositionOf(rank));
      const int last = first + (group_of(rank).size - 1) * lanes.shards;
      if (row.equal.Holds(first) && row.equal.Holds(last)) ++number;
      return std::pair<int64_t, int>(number, group_of(origins[static_cast<size_t>(rank)]).first);
    };
    for (int rank = 0; rank < static_cast<int>(rows.size()); ++rank) {
      const int first = lanes.RankOf(group_of(rank).first, lanes.PositionOf(rank));
      if (reference_of(rank) != reference_of(first)) return false;
    }
  }
  return true;
}

}  // namespace paceline
