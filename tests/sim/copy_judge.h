// Sees the copies of states, and says when an invariant does not hold:
//
//   - all members of a generation have the same orders about copies; those named as complete are
//     never older than others that were named before;
//   - all go back to one step, whose copies had been complete: each rank of their generation had
//     its own, and its buddy too;
//   - each rank goes back to the state that the holder of its seat had after this step;
//   - the steps that the job says were lost are the most that one rank has lost.
//
// Thread-compatible.
#ifndef TESTS_SIM_COPY_JUDGE_H_
#define TESTS_SIM_COPY_JUDGE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "controller/core/cluster/cluster.h"
#include "tests/sim/trainer.h"
#include "tests/sim/world.h"
#include "worker/trainer/core/copy_keeper.h"

namespace paceline::sim {

class CopyJudge {
 public:
  explicit CopyJudge(World& world) : world_(world) {}

  // The controller has handled an event.
  void OnStep(const Cluster& cluster);

  // The rank copies its state.
  void OnCopy(const Trainer& trainer, const CopyLabel& label, uint64_t state);
  // It and its buddy have the copy. `ranks`: in its generation.
  void OnKept(const JobId& job, const CopyLabel& label, int ranks);
  // The members of a generation meet with these orders.
  void OnOrders(const JobId& job, int64_t generation, const std::vector<CopyOrders>& orders);
  // The rank is about to replace its state by this one. Returns how many steps it loses.
  int64_t OnGoingBack(const Trainer& trainer, int64_t generation, const CopyLabel& label,
                      uint64_t state);
  // The rank trains.
  void OnBegun(const Trainer& trainer) { unreported_.erase(trainer.id()); }

 private:
  struct Kept {
    int ranks = 0;
    std::set<int> seats;
  };
  using Step = std::pair<int64_t, int64_t>;  // Generation, step.

  World& world_;
  std::map<std::pair<JobId, std::tuple<int, int64_t, int64_t>>, uint64_t> states_;
  std::map<std::pair<JobId, Step>, Kept> kept_;
  // Of the newest generation that has met: its number, and the copies named as complete.
  std::map<JobId, std::pair<int64_t, Step>> newest_;
  // Steps lost by ranks that have not trained since, and by the members of a generation.
  std::map<TrainerId, int64_t> unreported_;
  std::map<std::pair<JobId, int64_t>, int64_t> lost_;
  std::set<std::pair<JobId, int64_t>> checked_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_COPY_JUDGE_H_
