#include "worker/trainer/generation/hand_over.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/core/status_macros.h"
#include "worker/trainer/generation/rendezvous_rows.h"
#include "worker/trainer/generation/state_transfer.h"
#include "worker/trainer/generation/whole_state.h"

namespace paceline {
namespace {

constexpr int kLeaver = 0;
constexpr int kNewcomer = 1;

// What of TrainingState a rendezvous does not bring to a member that has kept its state.
struct Handed {
  RendezvousRow row;
  Member member;
  Member alone_as;
  int64_t order = 0;          // Length of StrategyMemory::gradient_order.
  int64_t gradient_rest = 0;  // Values in StrategyMemory::gradient_rest; 0: it has none.
  // By level: values in the residuals of quantised averages (comm/quantized_mean.h); 0: none.
  std::array<int64_t, kMaxLevels> own_residuals{};
  std::array<int64_t, kMaxLevels> mean_residuals{};
  std::array<bool, kMaxLevels> has_before{};  // Also LevelMemory::before.
};
static_assert(std::is_trivially_copyable_v<Handed>, "it is sent as bytes");

at::Tensor Bytes(int64_t size) { return at::empty({size}, at::kByte); }

// The order of gradients as a tensor of so many numbers.
at::Tensor Numbers(int64_t size) { return at::empty({size}, at::kLong); }

// That of gradients and those of all levels, in order.
std::vector<at::Tensor> ResidualsOf(const StrategyMemory& memory) {
  std::vector<at::Tensor> residuals;
  if (memory.gradient_rest.defined()) residuals.push_back(memory.gradient_rest);
  for (const StrategyMemory::Level& level : memory.levels) {
    if (!level.residuals.own.defined() || level.residuals.own.numel() == 0) continue;
    residuals.push_back(level.residuals.own);
    residuals.push_back(level.residuals.mean);
    if (!level.before.has_value()) continue;
    residuals.push_back(level.before->own);
    residuals.push_back(level.before->mean);
  }
  return residuals;
}

void NoteSizes(const StrategyMemory& memory, Handed* handed) {
  if (memory.gradient_rest.defined()) handed->gradient_rest = memory.gradient_rest.numel();
  for (size_t i = 0; i < std::min(memory.levels.size(), kMaxLevels); ++i) {
    const auto& residuals = memory.levels[i].residuals;
    if (!residuals.own.defined()) continue;
    handed->own_residuals[i] = residuals.own.numel();
    handed->mean_residuals[i] = residuals.mean.numel();
    handed->has_before[i] = memory.levels[i].before.has_value();
  }
}

// Makes room for those of `handed`. Requires: `memory` has the levels of who hands over.
void AllocateResiduals(const Handed& handed, at::Device device, StrategyMemory* memory) {
  const auto floats = at::TensorOptions().dtype(at::kFloat).device(device);
  if (handed.gradient_rest > 0) memory->gradient_rest = at::empty({handed.gradient_rest}, floats);
  for (size_t i = 0; i < memory->levels.size(); ++i) {
    if (handed.own_residuals[i] == 0) continue;
    const auto make_room = [&](auto* residuals) {
      residuals->own = at::empty({handed.own_residuals[i]}, floats);
      residuals->mean = at::empty({handed.mean_residuals[i]}, floats);
    };
    make_room(&memory->levels[i].residuals);
    if (handed.has_before[i]) make_room(&memory->levels[i].before.emplace());
  }
}

}  // namespace

std::shared_ptr<Group> ConnectHandOver(Platform& platform, const TrainerConfig& config,
                                       const Assignment& assignment) {
  if (!assignment.hand_over_rank.has_value()) return nullptr;
  const bool leaves = assignment.member.rank < 0;
  return Groups::MakePair(platform, config, assignment.store_address,
                          absl::StrCat("hand-over/", *assignment.hand_over_rank),
                          leaves ? kLeaver : kNewcomer);
}

void HandStateOver(Group& pair, const Rendezvous& rendezvous, const TrainingState& state) {
  const at::NoGradGuard no_grad;
  const std::vector<int64_t>& order = state.memory.gradient_order;
  Handed handed;
  handed.row = RowOf(rendezvous, state);
  handed.member = state.member;
  handed.alone_as = state.alone_as;
  handed.order = static_cast<int64_t>(order.size());
  NoteSizes(state.memory, &handed);
  const at::Tensor bytes = Bytes(sizeof(handed));
  std::memcpy(bytes.mutable_data_ptr(), &handed, sizeof(handed));
  SendTensors(pair, {bytes}, at::kCPU, kNewcomer);
  if (!order.empty()) {
    const at::Tensor numbers = Numbers(handed.order);
    std::memcpy(numbers.mutable_data_ptr(), order.data(), order.size() * sizeof(int64_t));
    SendTensors(pair, {numbers}, at::kCPU, kNewcomer);
  }
  SendWholeState(pair, at::kCPU, rendezvous, state, kNewcomer);
  const std::vector<at::Tensor> residuals = ResidualsOf(state.memory);
  if (!residuals.empty()) SendTensors(pair, residuals, at::kCPU, kNewcomer);
  pair.Receive(Numbers(1), kNewcomer);  // It has all of it.
}

absl::Status TakeStateOver(Group& pair, const Rendezvous& rendezvous, TrainingState& state) {
  const at::NoGradGuard no_grad;
  Handed handed;
  const at::Tensor bytes = Bytes(sizeof(handed));
  ReceiveTensors(pair, {bytes}, at::kCPU, kLeaver, /*in_place=*/true);
  std::memcpy(&handed, bytes.const_data_ptr(), sizeof(handed));
  const RendezvousRow& row = handed.row;
  PACELINE_RETURN_IF_ERROR(CheckModels(
      {row.model, HashOfModel(rendezvous.model, rendezvous.optimizer, rendezvous.attachments)}));
  std::vector<int64_t> order(static_cast<size_t>(handed.order));
  if (!order.empty()) {
    const at::Tensor numbers = Numbers(handed.order);
    ReceiveTensors(pair, {numbers}, at::kCPU, kLeaver, /*in_place=*/true);
    std::memcpy(order.data(), numbers.const_data_ptr(), order.size() * sizeof(int64_t));
  }
  state.position = RankPosition();
  state.checkpoint.reset();
  state.position.decided = std::max(row.position.generation, row.position.decided);
  ReceiveWholeState(pair, at::kCPU, rendezvous, row, state, kLeaver);
  AllocateResiduals(handed, rendezvous.model.device(), &state.memory);
  const std::vector<at::Tensor> residuals = ResidualsOf(state.memory);
  if (!residuals.empty()) {
    ReceiveTensors(pair, residuals, at::kCPU, kLeaver, /*in_place=*/true);
  }
  state.position = row.position;
  state.member = handed.member;
  state.alone_as = handed.alone_as;
  state.word_norm = row.word_norm;
  state.memory.all_equal = row.all_equal;
  state.memory.gradient_order = std::move(order);
  state.saver.by_steps = row.saves;
  state.saver.last_order = row.last_order;
  pair.Send(at::zeros({1}, at::kLong), kLeaver);
  return absl::OkStatus();
}

}  // namespace paceline
