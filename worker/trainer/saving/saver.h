// Saves a rank's state, and tells of its saves. When one is due is decided elsewhere: by
// save_schedule.h, or at the stops of Slipstream.
//
// The state is copied and written beside the training (checkpoint/shard_saver.h); rank 0 writes the
// manifest when the controller says that the shards of all ranks are durable.
//
// It lives as long as the process, so that what a generation's end leaves unwritten does not hold
// up the next one: a shard is written to its end, and told with the generation in which it was
// made.
//
// One training thread; the control's and the writer's threads come in by callbacks. Torch's
// exceptions pass through.
#ifndef WORKER_TRAINER_SAVING_SAVER_H_
#define WORKER_TRAINER_SAVING_SAVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "worker/trainer/checkpoint/shard_saver.h"
#include "worker/trainer/checkpoint/train_state.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/loop/training_state.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

// Whether what could not be written for this reason may be written later: a full disk, a missing
// permission, an error of the file system. Not a NaN, nor a file that is there already.
bool MayPass(const absl::Status& error);

SaveFailure FailureOf(const absl::Status& status);

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
    // What is saved, and what the manifest says of the plan and the position in the data. Called by
    // Save, and the first also by Enter.
    std::function<std::vector<StateTensor>()> state;
    std::function<void(Manifest* manifest)> describe;
    // A save was ordered that has not begun yet; a number may come again. The control's thread; not
    // after Leave.
    std::function<void(const SaveOrder& order)> on_order;
  };

  // `restored`: figures of the restore. Requires: the job has a checkpoint directory.
  Saver(const Parts& parts, const CheckpointFigures& restored);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // `memory` is kept up to date.
  void Enter(const Generation& generation, SaverMemory* memory);
  // Gives up what is not written yet but for the own shard. Afterwards the state may change.
  void Leave();

  // Between Enter and Leave, as all below. All ranks are equal, after so many steps: begins a save.
  // `order`: 0 for one of the spec. One that must be made waits for memory; another is left out if
  // there is none.
  void Save(int64_t steps_done, int64_t order, bool must);
  // The same at the end of the training, unless what is to be saved there is saved already. `due`:
  // besides what the job says of its end. If it fails for a reason that may pass (MayPass), that is
  // not told as a failed save: FinishShard and FinishCommit try again.
  void SaveAtEnd(int64_t steps_done, int64_t order, bool due);
  // From SaveAtEnd on: the newest order that names a directory, as far as this rank knows, and was
  // not answered yet; 0: none. Any thread.
  int64_t OrderElsewhere();
  // All ranks have agreed on that order while they hold their state: it is saved once more, into
  // the order's directory, and what else is written at the end goes there, too. `saved`: the
  // checkpoint is complete; then that else alone, false is returned, and the order is given up.
  bool SaveElsewhere(int64_t steps_done, int64_t order, bool saved);
  // Where the end's files go, beside the last checkpoint; made if it is missing. Errors as
  // FinishShard.
  absl::StatusOr<std::string> DirectoryAtEnd();

  // An order that will not be carried out.
  void GiveUp(int64_t order, const std::string& why);

  // Before the parameters or the optimizer's state change. Costs next to nothing unless a save has
  // begun since the last call.
  void BeforeChange();

  // For so long the training stood still because of the latest save.
  void CountBlocked(double seconds);

  // Returns when this rank's saves are durable. An error, one of MayPass: the shard of the save at
  // the end is not; each further call tries once more. The state must not have changed.
  absl::Status FinishShard();

  // After FinishShard has succeeded on all ranks. Whether the latest save is durable on all of
  // them: one that failed for good on some rank is not. Collective.
  bool IsDurableOnAll();

  // Rank 0, when it is: returns when the latest save is complete, or will not be since the
  // controller does not answer or the rank is to stop. Errors as FinishShard, of the manifest.
  absl::Status FinishCommit();

  // This rank keeps its state after so many steps, since what it writes at the end cannot be
  // written. `what`: one line for people, the cause and what is done about it.
  void TellHold(int64_t steps_done, const absl::Status& cause, const std::string& what);
  // No longer: tells again what became of the save at the end.
  void TellHoldOver();

 private:
  struct Durable {
    SaveStatus save;
    bool committing = false;
  };

  // The save at the end. Until its shard, or its manifest, is written again, with the error of
  // the latest try.
  struct AtEnd {
    SaveStatus told;
    absl::Status shard;
    absl::Status commit;
  };

  SaveStatus NewStatus();
  void TakePlan(const CheckpointPlan& plan, int64_t done);
  void BeginAtEnd(int64_t steps_done, int64_t order);
  int64_t BeginShard(const SaveStatus& save);
  bool IsAtEnd(const SaveStatus& save) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void Settle(const SaveStatus& save) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnDurable(const SaveStatus& save, const ShardResult& result);
  void Commit(const CheckpointPlan::Commit& commit);
  void OnCommitted(const SaveStatus& save, const absl::Status& status, double seconds);
  void Tell(const SaveStatus& save) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(SaveStatus save, SaveFailure failure, std::string why);
  Manifest Describe(int64_t steps_done) const;
  std::string JobDirectoryOf(int64_t order) const;
  std::string DirectoryOf(const SaveStatus& save) const;

  const Parts parts_;

  // Of the training thread.
  std::optional<Generation> generation_;
  SaverMemory* memory_ = nullptr;
  bool reserved_ = false;
  bool copying_ = false;  // A save has begun since the last BeforeChange.

  mutable absl::Mutex mu_;
  CheckpointFigures figures_ ABSL_GUARDED_BY(mu_);
  // Of rank 0: the newest that are not committed, by step.
  std::map<int64_t, Durable> durable_ ABSL_GUARDED_BY(mu_);
  Member member_ ABSL_GUARDED_BY(mu_);             // Of the generation.
  int64_t last_durable_ ABSL_GUARDED_BY(mu_) = 0;  // Step.
  std::optional<AtEnd> at_end_ ABSL_GUARDED_BY(mu_);

  // By the number of an order that names a directory, as the newest plan says.
  std::map<int64_t, std::string> directories_ ABSL_GUARDED_BY(mu_);
  int64_t newest_order_ ABSL_GUARDED_BY(mu_) = 0;    // Number; of the generation.
  int64_t answered_order_ ABSL_GUARDED_BY(mu_) = 0;  // The newest that was begun or given up.
  bool ending_ ABSL_GUARDED_BY(mu_) = false;         // SaveAtEnd has been called.
  int64_t end_order_ ABSL_GUARDED_BY(mu_) = 0;       // Its directory gets the end's files.

  ShardSaver shards_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SAVING_SAVER_H_
