// A step of schedule.h: which extra ranks of running jobs (recovery/elastic.h) are given back, so
// that others need not wait.
//
// Jobs of the lowest priority give first, of these the last started ones, and each goes down by
// numbers of ranks with which it can train on. Nothing is given that helps nobody.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_SCHEDULE_EXTRA_RANKS_H_
#define CONTROLLER_CORE_SCHEDULE_EXTRA_RANKS_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/job/job.h"
#include "controller/core/schedule/node_index.h"
#include "controller/core/schedule/packing.h"
#include "controller/core/schedule/schedule.h"

namespace paceline {

class ExtraRanks {
 public:
  // Of nodes by their index in `index`, which outlives this.
  explicit ExtraRanks(const NodeIndex& index) : index_(&index) {}

  // Adds the extra ranks of a job; of jobs in the order in which they give. `job` outlives this.
  void Add(const Job& job);

  bool empty() const { return steps_.empty(); }

  // How much one gets of what it wants when these slots are freed; by node.
  using Gain = std::function<int(const std::vector<int>& freed)>;
  // Lets jobs give ranks back as far as one then gets `wanted`, and no more than that takes; or, if
  // `partly`, as near to it as they can. Only jobs for which `gives` holds. Returns the slots that
  // become free, by node; empty: none.
  std::vector<int> Give(const Gain& gain, int wanted, bool partly, const std::string& beneficiary,
                        const std::function<bool(const JobRequest&)>& gives);

  // What was decided, by job.
  const std::map<JobId, ScheduleDecision::GiveBack>& given() const { return given_; }

 private:
  // The job goes down to so many ranks, from those of the step before.
  struct Step {
    const Job* job = nullptr;
    int ranks = 0;
    std::vector<NodeShare> shares;
  };

  const NodeIndex* index_;
  std::vector<Step> steps_;  // Not given yet; those of a job are neighbours.
  std::map<JobId, ScheduleDecision::GiveBack> given_;
};

// Those of an elastic job's slots that become free by themselves, as their trainers leave: also
// those started for extra ranks that it has not got yet, since it does not grow while others wait.
std::vector<NodeShare> LeavingSlots(const Job& job, const NodeIndex& index);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_EXTRA_RANKS_H_
