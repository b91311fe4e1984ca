// A step of schedule.h: which extra ranks of running jobs (recovery/elastic.h) are given back, so
// that others need not wait.
//
// Jobs of the lowest priority give first, of these the last started ones, and each goes down by
// numbers of ranks with which it can train on. Nothing is given that helps nobody.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_SCHEDULE_EXTRA_RANKS_H_
#define CONTROLLER_CORE_SCHEDULE_EXTRA_RANKS_H_

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>
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

  // How much one gets of what it wants when so many slots are freed; by node. It may look at all
  // nodes, so it is asked as rarely as can be.
  using Gain = std::function<int(const std::vector<int>& freed)>;
  // Slots that become free; none at all: both are empty.
  struct Freed {
    std::vector<int> by_node;
    std::vector<std::pair<const Job*, std::vector<NodeShare>>> by_job;
  };
  // Lets jobs give ranks back as far as one then gets `wanted`, and no more than that takes; or, if
  // `partly`, as near to it as they can. Only jobs for which `gives` holds. Requires: `gain` never
  // falls when more is freed.
  Freed Give(const Gain& gain, int wanted, bool partly, const std::string& beneficiary,
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

  // Of the steps that `may` be given, by index: those without which one does not get `least`.
  std::vector<bool> FindNeeded(const Gain& gain, int least, const std::vector<size_t>& may,
                               std::vector<int>& freed) const;

  const NodeIndex* index_;
  std::vector<Step> steps_;  // Not given yet; those of a job are neighbours.
  std::map<JobId, ScheduleDecision::GiveBack> given_;
};

// Those of an elastic job's slots that become free by themselves, as their trainers leave: also
// those started for extra ranks that it has not got yet, since it does not grow while others wait.
std::vector<NodeShare> LeavingSlots(const Job& job, const NodeIndex& index);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_EXTRA_RANKS_H_
