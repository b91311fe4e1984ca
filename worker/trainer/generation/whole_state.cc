#include "worker/trainer/generation/whole_state.h"

#include <ATen/ops/empty.h>

#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/generation/state_transfer.h"

namespace paceline {
namespace {

constexpr Attachments::Scope kScopes[] = {Attachments::Scope::kShared, Attachments::Scope::kOwn};

// Without what is attached.
std::vector<at::Tensor> TensorsOfState(const Rendezvous& rendezvous, const RandomNumbers& random,
                                       const StrategyMemory& memory) {
  std::vector<at::Tensor> tensors = StepTensors(rendezvous);
  for (const at::Tensor& tensor : TensorsOf(rendezvous.model.buffers())) tensors.push_back(tensor);
  for (const at::Tensor& tensor : random.tensors()) tensors.push_back(tensor);
  for (const StrategyMemory::Level& level : memory.levels) {
    if (level.reference.defined()) tensors.push_back(level.reference);
    if (level.momentum.defined()) tensors.push_back(level.momentum);
    if (level.stream.sent.defined()) tensors.push_back(level.stream.sent);
  }
  return tensors;
}

}  // namespace

std::vector<at::Tensor> StepTensors(const Rendezvous& rendezvous) {
  std::vector<at::Tensor> tensors = TensorsOf(rendezvous.model.parameters());
  if (rendezvous.attachments != nullptr) return tensors;  // They have the optimizer's state.
  for (const at::Tensor& tensor : rendezvous.optimizer.State()) tensors.push_back(tensor);
  return tensors;
}

int64_t CountParameters(const Rendezvous& rendezvous) {
  int64_t values = 0;
  for (const NamedTensor& one : rendezvous.model.parameters()) values += one.tensor.numel();
  return values;
}

void SendWholeState(Group& group, at::Device device, const Rendezvous& rendezvous,
                    const TrainingState& state, int to) {
  const RandomNumbers random(rendezvous.model.device());
  SendTensors(group, TensorsOfState(rendezvous, random, state.memory), device, to);
  if (rendezvous.attachments == nullptr) return;
  for (const Attachments::Scope scope : kScopes) {
    SendAttachment(group, *rendezvous.attachments, scope, device, to);
  }
}

void ReceiveWholeState(Group& group, at::Device device, const Rendezvous& rendezvous,
                       const RendezvousRow& source, TrainingState& state, int from) {
  const at::Device own_device = rendezvous.model.device();
  state.memory = StrategyMemory();
  state.memory.equal = source.equal;
  const auto room_for = [&](int64_t values) {
    return at::empty({values}, at::TensorOptions().device(own_device));
  };
  const int64_t parameters = CountParameters(rendezvous);
  for (size_t i = 0; i < static_cast<size_t>(source.levels); ++i) {
    StrategyMemory::Level& level = state.memory.levels.emplace_back();
    level.reference_number = source.references[i];
    if (level.reference_number != 0) level.reference = room_for(parameters);
    if (source.momenta[i]) level.momentum = room_for(parameters);
    if (i + 1 < static_cast<size_t>(source.levels)) continue;
    level.stream.position = source.stream;
    if (source.stream_values > 0) level.stream.sent = room_for(source.stream_values);
  }
  state.is_open = state.in_step = false;
  const RandomNumbers random(own_device);
  ReceiveTensors(group, TensorsOfState(rendezvous, random, state.memory), device, from,
                 /*in_place=*/true);
  if (rendezvous.attachments != nullptr) {
    for (const Attachments::Scope scope : kScopes) {
      rendezvous.attachments->Put(
          scope, ReceiveAttachment(group, *rendezvous.attachments, scope, device, from));
    }
  }
  random.Restore();
  state.data = source.data;
}

}  // namespace paceline
