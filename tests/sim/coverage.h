// Counts events that the simulator might silently never produce.
//
// Thread-compatible.
#ifndef TESTS_SIM_COVERAGE_H_
#define TESTS_SIM_COVERAGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "controller/core/cluster/cluster.h"

namespace paceline::sim {

class Coverage {
 public:
  void Count(const std::string& what) { ++counts_[what]; }
  // The controller has handled an event.
  void OnStep(const Cluster& cluster);
  // It has started with the stored state.
  void OnRestored(const Cluster& cluster);

  const std::map<std::string, int64_t>& counts() const { return counts_; }

 private:
  struct Seen {
    int64_t generation = 0;
    JobState state = JobState::kQueued;
    std::string reason;
    bool under_way = false;
    bool planned = false;
    // Participants of the planned change under way.
    std::vector<TrainerId> newcomers, stayers, leavers;
    bool shrank = false;
    bool grew = false;  // Whether the job has grown after it shrank.
  };

  void OnNewGeneration(const Job& job, const MembershipChange& change, Seen& seen);
  void OnInterrupted(const Job& job, const Seen& seen);

  std::map<std::string, int64_t> counts_;
  std::map<JobId, Seen> seen_;
  std::set<NodeName> lost_, drained_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_COVERAGE_H_
