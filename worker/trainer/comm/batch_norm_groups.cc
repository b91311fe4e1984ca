#include "worker/trainer/comm/batch_norm_groups.h"

#include <algorithm>
#include <utility>

namespace paceline {

void BatchNormGroups::BeginPass(Group* gradients, int active) {
  waiting_ = nullptr;
  model_.SetActiveGroup(nullptr);
  if (gradients == nullptr) return;
  const std::vector<int>& ranks = gradients->ranks();
  const std::vector<int> members(ranks.begin(),
                                 std::lower_bound(ranks.begin(), ranks.end(), active));
  if (members.size() == ranks.size()) return model_.SetActiveGroup(gradients);
  if (members.empty()) return;
  // Before this rank's own forward pass: its backward pass may need the values that were used.
  if (rank_ >= active) return gradients->CopyFromFirst(TensorsOf(model_.buffers()));
  waiting_ = gradients;
  if (members.size() == 1) return;
  std::shared_ptr<Group>& group = made_[members];
  if (group == nullptr) group = groups_.Make(members, "batch norm", /*version=*/1);
  model_.SetActiveGroup(group.get());
}

void BatchNormGroups::EndForward() {
  if (waiting_ == nullptr) return;
  // Copies, for the same reason: the members have equal values, and get them back.
  std::vector<at::Tensor> copies;
  for (const NamedTensor& buffer : model_.buffers()) copies.push_back(buffer.tensor.clone());
  std::exchange(waiting_, nullptr)->CopyFromFirst(copies);
}

}  // namespace paceline
