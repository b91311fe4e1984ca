#include "worker/trainer/generation/stream_gifts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "worker/trainer/comm/training_plan.h"
#include "worker/trainer/core/stream_rendezvous.h"
#include "worker/trainer/core/stream_schedule.h"
#include "worker/trainer/generation/state_transfer.h"

namespace paceline {
namespace {

// That of the average which began after this step.
Fragment FragmentOf(const Rendezvous& rendezvous, int64_t begun) {
  std::vector<int64_t> sizes;
  for (const NamedTensor& one : rendezvous.model.parameters()) sizes.push_back(one.tensor.numel());
  const StreamSchedule schedule = StreamScheduleOf(rendezvous.plan, rendezvous.config.strategy);
  return CutIntoFragments(sizes, schedule.fragments)[schedule.FragmentOf(begun)];
}

}  // namespace

void AgreeOnStream(const Rendezvous& rendezvous, const std::vector<RendezvousRow>& rows,
                   TrainingState& state) {
  const bool have_levels = std::all_of(rows.begin(), rows.end(),
                                       [](const RendezvousRow& row) { return row.levels == 1; });
  if (!IsStreamed(rendezvous.plan) || !have_levels) return;
  std::vector<StreamPosition> reported;
  for (const RendezvousRow& row : rows) reported.push_back(row.stream);
  const StreamAgreement agreement = AgreeOnAverages(reported);
  const int me = rendezvous.config.rank();
  StrategyMemory::Level& level = state.memory.levels.back();
  for (const StreamAgreement::Gift& gift : agreement.gifts) {
    if (gift.from != me && gift.to != me) continue;
    const Fragment fragment = FragmentOf(rendezvous, agreement.newest);
    if (fragment.values == 0) continue;
    const std::vector<at::Tensor> changed{
        level.reference.narrow(0, fragment.offset, fragment.values),
        level.momentum.narrow(0, fragment.offset, fragment.values)};
    Group& all = rendezvous.groups.all();
    const at::Device device = rendezvous.model.device();
    if (gift.from == me) {
      SendTensors(all, changed, device, gift.to);
    } else {
      ReceiveTensors(all, changed, device, gift.from, /*in_place=*/false);
      level.stream.position.taken = agreement.newest;
      level.before.reset();  // What this rank had sent has arrived.
    }
  }
  level.stream.position = agreement.positions[static_cast<size_t>(me)];
  if (!level.stream.position.is_waiting()) level.stream.sent = at::Tensor();
}

}  // namespace paceline
