// State of the scheduler's pass (schedule.h) for one kind of device: what is free, what is about to
// become free, and who is going to take that.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_SCHEDULE_DEVICE_PASS_H_
#define CONTROLLER_CORE_SCHEDULE_DEVICE_PASS_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/schedule/extra_ranks.h"
#include "controller/core/schedule/node_index.h"
#include "controller/core/schedule/node_set.h"
#include "controller/core/schedule/packing.h"
#include "controller/core/schedule/rank_blocks.h"
#include "controller/core/schedule/schedule.h"
#include "controller/core/schedule/slot_table.h"

namespace paceline {

struct DevicePass {
  // Both outlive this.
  DevicePass(const std::vector<NodeSpace>& nodes, const NodeIndex& index)
      : table(nodes, index),
        coming(nodes.size()),
        claimed(nodes.size()),
        reserved(table.size()),
        extra(index) {}

  // Slots of the node that nobody ahead takes, when those that are about to become free are; and so
  // many more.
  int Soon(int n, int freed = 0) const;
  // The blocks of the job that fit into these nodes then, and when others are freed, too.
  int CountFit(const JobRequest& job, const NodeSet& nodes, const std::vector<int>& freed) const;
  // What becomes free there is that of a job with these blocks.
  void Claim(const RankBlocks& blocks, const NodeSet& nodes);

  SlotTable table;
  std::vector<int> coming;  // By node: slots of jobs that are about to leave.
  // By node: those of them that waiting jobs, already decided, are going to take.
  std::vector<int> claimed;
  NodeSet reserved;                                // Nodes on which slots are kept.
  std::vector<std::pair<NodeSet, JobId>> keepers;  // The jobs for which they are kept.
  std::vector<HeldSlots> held;  // Of jobs that stay: without those that are coming.
  ExtraRanks extra;             // Of running jobs.
  // By set of allowed nodes, `same` and shards: room for blocks of ranks when it was last looked
  // for; it only shrinks.
  std::map<std::tuple<const NodeSet*, std::string, int>, int> room;
  // By set of allowed nodes and shards: what is free, at a version of the table.
  std::map<std::pair<const NodeSet*, int>, std::pair<int64_t, std::string>> shortages;
};

// Takes these slots off those that a job holds.
void TakeOff(const std::vector<NodeShare>& gone, std::vector<NodeShare>& shares);

// Slots that were given back are no longer held, but coming.
void Free(const ExtraRanks::Freed& freed, std::vector<int>& coming, std::vector<HeldSlots>& held);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_DEVICE_PASS_H_
