#include "worker/trainer/copies/copy_restore.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/generation/rendezvous_rows.h"
#include "worker/trainer/generation/state_transfer.h"

namespace paceline {
namespace {

// What a rank has, and needs.
struct CopyRow {
  CopyLabel wanted;
  std::array<CopyLabel, 2 * CopyPlaces::kCount> held;
  std::array<uint64_t, 2 * CopyPlaces::kCount> bytes{};
};

// Few enough bytes for a device to hold beside the training.
constexpr uint64_t kPieceBytes = 64 << 20;

CopyRow RowOf(const CopyOrders& orders, const StateCopies& copies) {
  CopyRow row;
  row.wanted = orders.CompleteOf(orders.seat);
  const std::vector<CopyLabel> held = copies.Held();
  for (size_t i = 0; i < std::min(held.size(), row.held.size()); ++i) {
    row.held[i] = held[i];
    row.bytes[i] = copies.ImageOf(held[i]).size();
  }
  return row;
}

std::vector<int> SourcesIn(const std::vector<CopyRow>& rows) {
  std::vector<std::vector<CopyLabel>> held;
  std::vector<CopyLabel> wanted;
  for (const CopyRow& row : rows) {
    held.emplace_back(row.held.begin(), row.held.end());
    wanted.push_back(row.wanted);
  }
  return SourcesOfCopies(held, wanted);
}

uint64_t SizeIn(const CopyRow& row, const CopyLabel& label) {
  const auto found = std::find(row.held.begin(), row.held.end(), label);
  return row.bytes[static_cast<size_t>(found - row.held.begin())];
}

// Calls `use` with a tensor over each piece of the memory, in order.
template <typename F>
void ForEachPiece(const char* memory, uint64_t bytes, F use) {
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    const auto size = static_cast<int64_t>(std::min(kPieceBytes, bytes - at));
    use(at::from_blob(const_cast<char*>(memory) + at, {size}, at::kByte));
  }
}

void Send(const Rendezvous& rendezvous, absl::string_view image, int to) {
  ForEachPiece(image.data(), image.size(), [&](const at::Tensor& piece) {
    SendTensors(rendezvous.groups.all(), {piece}, rendezvous.model.device(), to);
  });
}

absl::Status Receive(const Rendezvous& rendezvous, const CopyLabel& label, uint64_t bytes, int from,
                     StateCopies& copies) {
  const absl::StatusOr<char*> memory = copies.BeginFetch(label, static_cast<size_t>(bytes));
  if (!memory.ok()) {
    copies.EndFetch(/*whole=*/false);
    return memory.status();
  }
  try {
    ForEachPiece(*memory, bytes, [&](const at::Tensor& piece) {
      ReceiveTensors(rendezvous.groups.all(), {piece}, rendezvous.model.device(), from,
                     /*in_place=*/true);
    });
  } catch (...) {
    copies.EndFetch(/*whole=*/false);
    throw;
  }
  copies.EndFetch(/*whole=*/true);
  return absl::OkStatus();
}

absl::Status Fetch(const Rendezvous& rendezvous, const CopyRow& own, StateCopies& copies) {
  const int me = rendezvous.config.rank();
  const std::vector<CopyRow> rows =
      GatherByRank(rendezvous.groups.all(), rendezvous.model.device(), own);
  const std::vector<int> sources = SourcesIn(rows);
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    if (sources[rank] >= 0) continue;
    return absl::InternalError(absl::StrCat("no rank has the copy of seat ", rows[rank].wanted.seat,
                                            " after step ", rows[rank].wanted.step,
                                            "; restart the job from its checkpoint"));
  }
  for (size_t rank = 0; rank < rows.size(); ++rank) {
    const int to = static_cast<int>(rank);
    const int from = sources[rank];
    if (from == to || (from != me && to != me)) continue;
    const CopyLabel& label = rows[rank].wanted;
    if (from == me) {
      Send(rendezvous, copies.ImageOf(label), to);
    } else {
      PACELINE_RETURN_IF_ERROR(
          Receive(rendezvous, label, SizeIn(rows[static_cast<size_t>(from)], label), from, copies));
    }
  }
  return absl::OkStatus();
}

// Where a rank is that has gone back: it has trained in the generation of the copies, by the groups
// of that time. If the present ones are others, the rendezvous sees it.
RankPosition PositionAt(const Rendezvous& rendezvous, const ImageFacts& facts) {
  const Member& member = rendezvous.config.member;
  RankPosition position;
  position.generation = facts.label.generation;
  position.step = facts.label.step;
  position.evaluated = facts.evaluated;
  position.rank = position.decided_rank = member.rank;
  position.decided = member.generation;
  position.gradients = position.exchange = {member.rank, 1};
  position.layout = facts.layout;
  // Nobody goes on alone: all are at one step. That they once did still says that ranks which share
  // gradients may differ.
  position.alone_below = std::min(facts.alone_below, facts.label.step);
  return position;
}

}  // namespace

absl::Status RestoreCopies(const Rendezvous& rendezvous, const CopyOrders& orders,
                           StateCopies& copies, TrainingState& state) {
  const CopyRow own = RowOf(orders, copies);
  PACELINE_RETURN_IF_ERROR(Fetch(rendezvous, own, copies));
  const int64_t lost = std::max<int64_t>(state.position.step - own.wanted.step, 0);
  copies.BeginRestore(lost);
  if (std::exchange(state.in_step, false)) rendezvous.undo->Undo();
  state.is_open = false;
  state.position = RankPosition();  // It has none until it has the whole of the copy.
  state.position.decided = rendezvous.config.member.generation;
  const absl::string_view image = copies.ImageOf(own.wanted);
  ImageFacts facts;
  std::vector<StrategyMemory::Level> levels;
  at::Tensor gradient_rest;
  const absl::Status restored = RestoreImage(
      image.data(), image.size(),
      {rendezvous.model, rendezvous.optimizer, rendezvous.attachments, &levels, &gradient_rest},
      &facts);
  if (!restored.ok()) return absl::InternalError(restored.message());
  std::vector<int64_t> order = std::move(state.memory.gradient_order);
  state.memory = StrategyMemory();
  state.memory.gradient_order = std::move(order);
  state.memory.all_equal = facts.all_equal;
  state.memory.levels = std::move(levels);
  state.memory.gradient_rest = std::move(gradient_rest);
  state.data = facts.data;
  state.member = state.alone_as = rendezvous.config.member;
  state.checkpoint.reset();
  state.position = PositionAt(rendezvous, facts);
  state.saver.by_steps.counted = state.position.step;
  PACELINE_LOG(INFO) << "went back to the copy of seat=" << own.wanted.seat
                     << " step=" << own.wanted.step << " lost=" << lost;
  return absl::OkStatus();
}

}  // namespace paceline
