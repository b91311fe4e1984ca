#include "worker/trainer/generation/hand_over.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
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
  int64_t order = 0;  // Length of StrategyMemory::gradient_order.
};
static_assert(std::is_trivially_copyable_v<Handed>, "it is sent as bytes");

at::Tensor Bytes(int64_t size) { return at::empty({size}, at::kByte); }

// The order of gradients as a tensor of so many numbers.
at::Tensor Numbers(int64_t size) { return at::empty({size}, at::kLong); }

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
  const at::Tensor bytes = Bytes(sizeof(handed));
  std::memcpy(bytes.mutable_data_ptr(), &handed, sizeof(handed));
  SendTensors(pair, {bytes}, at::kCPU, kNewcomer);
  if (!order.empty()) {
    const at::Tensor numbers = Numbers(handed.order);
    std::memcpy(numbers.mutable_data_ptr(), order.data(), order.size() * sizeof(int64_t));
    SendTensors(pair, {numbers}, at::kCPU, kNewcomer);
  }
  SendWholeState(pair, at::kCPU, rendezvous, state, kNewcomer);
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
  state.position.decided = std::max(row.position.generation, row.position.decided);
  ReceiveWholeState(pair, at::kCPU, rendezvous, row, state, kLeaver);
  state.position = row.position;
  state.member = handed.member;
  state.alone_as = handed.alone_as;
  state.word_norm = row.word_norm;
  state.memory.all_equal = row.all_equal;
  state.memory.gradient_order = std::move(order);
  state.saver.due = row.save_due;
  state.saver.last_order = row.last_order;
  pair.Send(at::zeros({1}, at::kLong), kLeaver);
  return absl::OkStatus();
}

}  // namespace paceline
