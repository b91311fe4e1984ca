// When a rank saves its state, and what it tells of its saves.
//
// A save is due by steps, at the step that the ranks have agreed on for an order
// (comm/save_agreement.h), and after the last step. It takes place after the first step from then
// on after which all ranks are equal; an order for now makes them equal. The state is copied and
// written beside the training (checkpoint/shard_saver.h); rank 0 writes the manifest when the
// controller says that the shards of all ranks are durable.
//
// It lives as long as the process, so that what a generation's end leaves unwritten does not hold
// up the next one: a shard is written to its end, and told with the generation in which it was
// made.
//
// One training thread; the control's and the writer's threads come in by callbacks. Torch's
// exceptions pass through.
#ifndef WORKER_TRAINER_SAVER_H_
#define WORKER_TRAINER_SAVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/checkpoint/shard_saver.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/comm/save_agreement.h"
#include "worker/trainer/comm/strategy.h"
#include "worker/trainer/config.h"
#include "worker/trainer/control.h"
#include "worker/trainer/core/sampler.h"
#include "worker/trainer/figures.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/optimizer.h"
#include "worker/trainer/training_state.h"

namespace paceline {

class Saver {
 public:
  // All of it outlives the saver.
  struct Parts {
    const TrainerConfig& config;  // Of any generation.
    const Model& model;
    const Optimizer& optimizer;
    Control& control;
    Platform& platform;
  };
  // All of it is there until Leave.
  struct Generation {
    const TrainerConfig& config;
    Groups& groups;
    Strategy& strategy;
    std::function<DataPosition()> position;  // Behind the steps done.
  };

  // `restored`: figures of the restore. Requires: the job has a checkpoint directory.
  Saver(const Parts& parts, const CheckpointFigures& restored);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Training goes on after `steps_done` steps. `memory` is kept up to date.
  void Enter(const Generation& generation, int64_t steps_done, SaverMemory* memory);
  // Gives up what is not written yet but for the own shard. Afterwards the state may change.
  void Leave();

  // Between Enter and Leave, as all below. After each step; `all_equal`: the ranks' parameters.
  // True when a save began, or something else than a step took time.
  bool AfterStep(int64_t steps_done, bool all_equal);

  // Before the parameters or the optimizer's state change. Costs next to nothing unless a save has
  // begun since the last call.
  void BeforeChange();

  // After the last step, when all ranks are equal: the save at the end, if one is due.
  void SaveAtEnd(int64_t steps_done);

  // Returns when this rank's saves are durable and, on rank 0, the last one is complete, or will
  // not be. Collective.
  void Finish();

 private:
  struct Due {
    int64_t order;  // 0: of the spec.
    bool now;
  };
  struct Durable {
    SaveStatus save;
    bool committing = false;
  };

  SaveStatus NewStatus();
  std::vector<StateTensor> State() const;
  // One that must be made waits for memory; another is left out if there is none.
  void Save(int64_t steps_done, int64_t order, bool must);
  void OnDurable(const SaveStatus& save, const ShardResult& result);
  void Commit(int64_t step);
  void OnCommitted(const SaveStatus& save, const absl::Status& status, double seconds);
  void Tell(const SaveStatus& save) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(SaveStatus save, SaveFailure failure, std::string why);
  void CountBlocked(double seconds);
  Manifest Describe(int64_t steps_done) const;
  std::string DirectoryOf(const SaveStatus& save) const;

  const Parts parts_;

  // Of the training thread.
  std::optional<Generation> generation_;
  SaverMemory* memory_ = nullptr;
  std::optional<Due> due_;
  bool reserved_ = false;
  bool copying_ = false;  // A save has begun since the last BeforeChange.

  absl::Mutex mu_;
  CheckpointFigures figures_ ABSL_GUARDED_BY(mu_);
  // Of rank 0: the newest that are not committed, by step.
  std::map<int64_t, Durable> durable_ ABSL_GUARDED_BY(mu_);
  Member member_ ABSL_GUARDED_BY(mu_);             // Of the generation.
  int64_t last_durable_ ABSL_GUARDED_BY(mu_) = 0;  // Step.

  ShardSaver shards_;
  std::unique_ptr<SaveAgreement> agreement_;  // After what its callbacks use. Of the generation.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SAVER_H_
