// Sees elastic jobs (controller/core/recovery/elastic.h), and says when an invariant does not hold:
//
//   - no job has fewer ranks than it may go on with, nor more than it may have;
//   - what is given back is beyond what the job wants;
//   - a job grows beyond that only when nothing has changed for a while, so it does not flap;
//   - the first job that waits, and would fit if others had no more ranks than they want, does not
//     wait for long;
//   - when nothing breaks any more, slots that nobody else needs do not stay idle for long beside a
//     job that could grow into them.
//
// Thread-compatible.
#ifndef TESTS_SIM_ELASTIC_JUDGE_H_
#define TESTS_SIM_ELASTIC_JUDGE_H_

#include <map>

#include "controller/core/cluster/cluster.h"
#include "tests/sim/timeline.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class ElasticJudge {
 public:
  explicit ElasticJudge(World& world) : world_(world) {}

  // The controller has handled an event.
  void OnStep(const Cluster& cluster);
  // It has started with the stored state.
  void OnRestored(const Cluster& cluster);

 private:
  struct Seen {
    int64_t generation = 0;
    JobState state = JobState::kQueued;
    Micros since = 0;      // When its ranks last changed, or it began to train.
    Micros may_grow = -1;  // Since when it could have grown; -1: it cannot.
  };

  void CheckNumbers(const Job& job);
  void CheckChange(const Job& job, const Seen& seen);
  void CheckWaiting(const Cluster& cluster);
  void CheckIdle(const Cluster& cluster);

  World& world_;
  std::map<JobId, Seen> seen_;
  JobId waiting_;  // The first that waits, while others have what it lacks.
  Micros waits_since_ = 0;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_ELASTIC_JUDGE_H_
