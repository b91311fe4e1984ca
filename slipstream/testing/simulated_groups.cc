// What simulated ranks of a group do together: ask each other, and share gradients.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "slipstream/quorum.h"
#include "slipstream/testing/simulated_ranks.h"

namespace paceline {

std::vector<SimulatedRank*> SimulatedRanks::GroupOf(const SimulatedRank& rank) {
  const int first = rank.rank / options_.group_size * options_.group_size;
  std::vector<SimulatedRank*> members;
  for (int i = first; i < std::min(first + options_.group_size, ranks()); ++i) {
    members.push_back(&this->rank(i));
  }
  return members;
}

// Requires: the rank has left its former group.
void SimulatedRanks::EnterGroup(SimulatedRank& rank) {
  const int first = rank.rank / options_.group_size * options_.group_size;
  rank.group = GroupSteps(std::min(options_.group_size, latest_.ranks() - first));
}

void SimulatedRanks::AskGroup(SimulatedRank& rank, const ComputeOrder& order) {
  rank.compute_busy = rank.in_group = true;
  const std::vector<SimulatedRank*> members = GroupOf(rank);
  Group& group = groups_[members.front()->rank];
  if (!group.gradients.empty()) Check(rank, "asks while its group makes a step");
  group.orders[rank.rank] = {order, rank.machine.update_periods()};
  if (group.orders.size() < members.size()) return;
  SimulatedVector sums = GroupSteps::Numbers(ComputeOrder::Kind::kWait);
  for (const auto& [member, asked] : group.orders) {
    sums = sums + GroupSteps::Numbers(asked.order.kind);
  }
  for (SimulatedRank* const member : members) {
    Later(
        Random(options_.longest_message), *member, /*of_comm=*/true,
        [this, member, asked = group.orders[member->rank], sums] { Answer(*member, asked, sums); });
  }
  group.orders.clear();
}

void SimulatedRanks::Answer(SimulatedRank& rank, const Asked& asked, const SimulatedVector& sums) {
  if (broken_ && Happens(0.5)) return;  // A collective may fail for only some ranks.
  rank.compute_busy = rank.in_group = false;
  if (rank.group.Agree(sums, asked.order.kind, asked.update_periods)) {
    return CarryOut(rank, asked.order);
  }
  rank.machine.DropStep();
  PumpComm(rank);
  Later(Quorum::Pause(rank.machine.state().window.step()), rank, /*of_comm=*/true,
        [this, &rank] { PumpCompute(rank); });
}

void SimulatedRanks::ShareGradient(SimulatedRank& rank, const ComputeOrder& order,
                                   absl::Time began) {
  const std::vector<SimulatedRank*> members = GroupOf(rank);
  Group& group = groups_[members.front()->rank];
  if (!group.orders.empty()) Check(rank, "makes a step while its group asks");
  std::map<int, absl::Time>& gradients = group.gradients;
  gradients[rank.rank] = began;
  if (gradients.size() < members.size()) return;
  const SimulatedVector mean = RandomChange();
  for (SimulatedRank* const member : members) {
    Later(Random(options_.longest_message), *member, /*of_comm=*/true,
          [this, member, order, mean, start = gradients[member->rank]] {
            if (broken_ && Happens(0.5)) return;
            member->in_group = false;
            EndStep(*member, order, now_ - start, mean);
          });
  }
  gradients.clear();
}

// Ends the collective that the rank is in; the step that it was ordered to make is not made.
void SimulatedRanks::LeaveGroup(SimulatedRank& rank) {
  if (!std::exchange(rank.in_group, false)) return;
  rank.compute_busy = false;
  rank.compute_pass.reset();
  rank.machine.DropStep();
}

}  // namespace paceline
