// The ranks over whose samples synchronised batch normalisation takes its statistics: of those that
// share gradients, the ones that have samples in the pass.
//
// At the end of an epoch, ranks may have none (core/sampler.h). All know from their position in the
// data which ones these are: the last. Nobody waits for them; they get the running statistics of
// the others, so that with one group of gradients these stay equal on all ranks.
//
// Thread-compatible. A failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_BATCH_NORM_GROUPS_H_
#define WORKER_TRAINER_COMM_BATCH_NORM_GROUPS_H_

#include <map>
#include <memory>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

class BatchNormGroups {
 public:
  // `rank`: this one. Both references must outlive this.
  BatchNormGroups(Groups& groups, int rank, ModelTensors& model)
      : groups_(groups), rank_(rank), model_(model) {}

  // Call before each forward pass. Tells the model over which ranks to normalise: those of
  // `gradients` below `active`. `gradients`: the ranks that share gradients in the pass, until
  // whose end it must live; null: this rank's stay its own. Members that have not been together
  // before are connected. A rank without samples waits for the running statistics of the others.
  void BeginPass(Group* gradients, int active);

  // Call after each forward pass: gives the running statistics to ranks without samples.
  void EndForward();

 private:
  Groups& groups_;
  const int rank_;
  ModelTensors& model_;
  // In a forward pass with samples: the group of gradients, if others in it wait for statistics.
  Group* waiting_ = nullptr;
  std::map<std::vector<int>, std::shared_ptr<Group>> made_;  // By members.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_BATCH_NORM_GROUPS_H_
