// What a drain does to a job that has trainers on the node.
//
//   mode         a job that recovers        one with checkpoints     any other
//   swap         ranks move, it trains on   as checkpoint            as finish
//   checkpoint   saves, stops, is queued again; without a directory for checkpoints as finish
//   finish       trains to its end
//   now          its ranks there end: it    stops at once and is queued again
//                recovers
//
// While no node of a job that recovers answers, now ends none of its ranks (unreachable.h).
//
// A stop for a drain does not count as a restart. A job that has not begun to train is queued again
// at once, unless the mode is finish.
#ifndef CONTROLLER_CORE_NODE_DRAIN_H_
#define CONTROLLER_CORE_NODE_DRAIN_H_

#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/job/job.h"
#include "controller/core/node/hold.h"

namespace paceline {

enum class DrainWay { kSwap, kSaveAndRequeue, kRequeue, kFinish, kEndRanks };

struct DrainEffect {
  JobId job;
  std::vector<int> ranks;  // Those on the node; ascending.
  DrainWay way = DrainWay::kFinish;
  std::string text;  // One line for people.
  int missing = 0;   // For a swap: ranks that no other slot can take now.
};

// Requires: HasTrainersOn(job, node).
DrainEffect ChooseEffect(const Job& job, const NodeName& node, DrainMode mode);

// Adds to a swap's text where its ranks go: first to existing spares on the nodes `spares`, then to
// new trainers on free `slots`. Each entry takes one rank; `missing` is set to the rest.
void NameSubstitutes(DrainEffect& effect, const std::vector<NodeName>& spares,
                     const std::vector<NodeName>& slots);

// Says in the text that the ranks, which are to end, do not while no node of the job answers.
void NameSilence(DrainEffect& effect, const NodeName& node);

// The mode that has this effect.
DrainMode ModeOf(DrainWay way);

}  // namespace paceline

#endif  // CONTROLLER_CORE_NODE_DRAIN_H_
