#include "controller/core/schedule/device_pass.h"

#include <algorithm>
#include <cstddef>

namespace paceline {

int DevicePass::Soon(int n, int freed) const {
  const auto i = static_cast<size_t>(n);
  return std::max(0, table.room(n) + coming[i] + freed - claimed[i]);
}

int DevicePass::CountFit(const JobRequest& job, const NodeSet& nodes,
                         const std::vector<int>& freed) const {
  const RankBlocks blocks = table.BlocksOf(job);
  int most = 0;
  for (const NodeSet& choice : table.index().Choices(job.placement, nodes)) {
    BlockCount count(table.index(), blocks);
    count.AddAll(choice, [&](int n) { return blocks.Fit(Soon(n, freed[static_cast<size_t>(n)])); });
    most = std::max(most, count.total());
  }
  return most;
}

void DevicePass::Claim(const RankBlocks& blocks, const NodeSet& nodes) {
  int left = blocks.count;
  nodes.ForEach([&](int n) {
    const int taken = std::min(left, blocks.Fit(Soon(n)));
    left -= taken;
    claimed[static_cast<size_t>(n)] += taken * blocks.size;
  });
}

void TakeOff(const std::vector<NodeShare>& gone, std::vector<NodeShare>& shares) {
  for (const NodeShare& share : gone) {
    int left = share.count;
    for (NodeShare& held : shares) {
      if (held.node != share.node) continue;
      const int taken = std::min(left, held.count);
      held.count -= taken;
      left -= taken;
    }
  }
}

void Free(const ExtraRanks::Freed& freed, std::vector<int>& coming, std::vector<HeldSlots>& held) {
  for (size_t n = 0; n < freed.by_node.size(); ++n) coming[n] += freed.by_node[n];
  for (const auto& [giver, shares] : freed.by_job) {
    for (HeldSlots& one : held) {
      if (one.job == giver) TakeOff(shares, one.shares);
    }
  }
}

}  // namespace paceline
