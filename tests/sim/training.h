// What the trainers of a generation do together: they meet, and exchange gradients step by step. A
// member that is gone, stands still or cannot be reached fails the others, at once or when their
// timeout has passed.
//
// Thread-compatible.
#ifndef TESTS_SIM_TRAINING_H_
#define TESTS_SIM_TRAINING_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/trainer.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class Training {
 public:
  explicit Training(World& world) : world_(world), random_(world.random.Fork()) {}

  // Waits in its generation's store for the others.
  void Join(const TrainerPtr& trainer);
  // Waits in the exchange of its next step for the others.
  void Arrive(const TrainerPtr& trainer);
  // The process is gone. `reset`: its host tells those who are connected to it.
  void OnEnd(const Trainer& trainer, bool reset);
  // A wire between two nodes works again.
  void OnMended();

 private:
  struct Member {
    TrainerPtr trainer;
    bool waits = false;
    int64_t wait = 0;  // Number of the latest one.
  };
  struct Group {
    std::vector<Member> members;
    bool met = false;
    int64_t epoch = 0;
    int64_t answered_order = 0;
  };
  using Key = std::pair<JobId, Generation>;

  void Wait(Group& group, const TrainerPtr& trainer);
  void TryExchange(Group& group);
  bool IsConnected(const Group& group) const;
  void Fail(Group& group, size_t member, Micros delay, std::string why);

  World& world_;
  Random random_;
  std::map<Key, Group> groups_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_TRAINING_H_
