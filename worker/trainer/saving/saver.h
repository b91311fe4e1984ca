// Saves a rank's state and reports its saves. save_schedule.h, or Slipstream at its stops, decides
// when a save is due.
//
// The state is copied and written while training goes on (checkpoint/shard_saver.h). Rank 0 writes
// the manifest when the controller says that all ranks' shards are durable.
//
// It lives as long as the process, so that a generation's unwritten shard does not delay the next
// generation: it is written to its end, and reported under the generation that made it.
//
// Used by one training thread; the control's and the writer's threads enter by callbacks. Torch's
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
#include "worker/trainer/model/model_tensors.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

SaveFailure FailureOf(const absl::Status& status);

class Saver {
 public:
  // All of these must outlive the saver.
  struct Parts {
    const TrainerConfig& config;  // Of any generation.
    const ModelTensors& model;
    const Optimizer& optimizer;
    Control& control;
    Platform& platform;
  };
  // All of these must stay valid until Leave.
  struct Generation {
    const TrainerConfig& config;
    Groups& groups;
    // `state` returns what to save; Save and Enter call it. `describe` adds the plan and the
    // position in the data to the manifest; Save calls it.
    std::function<std::vector<StateTensor>()> state;
    std::function<void(Manifest* manifest)> describe;
    // A save was ordered and has not begun; may be called again for the same number. Called on the
    // control's thread, not after Leave.
    std::function<void(const SaveOrder& order)> on_order;
  };

  // `restored`: figures of the restore. Requires: the job has a checkpoint directory.
  Saver(const Parts& parts, const CheckpointFigures& restored);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // `memory` is kept up to date until Leave.
  void Enter(const Generation& generation, SaverMemory* memory);
  // Gives up all saves in progress but this rank's own shard. The state may change afterwards.
  void Leave();

  // Call this and the functions below between Enter and Leave. Begins a save when all ranks are
  // equal after `steps_done` steps. `order`: 0 for a save due by the spec. If no memory is free, a
  // save that `must` be made waits, and any other is skipped.
  void Save(int64_t steps_done, int64_t order, bool must);
  // Like Save at the end of the training, unless everything due then is saved already. `due`: a
  // save is due besides what the job says about its end. A failure that may pass (MayPass) is not
  // reported as failed: FinishShard and FinishCommit try again.
  void SaveAtEnd(int64_t steps_done, int64_t order, bool due);
  // After SaveAtEnd: the newest unanswered order known here that names a directory; 0: none. Any
  // thread.
  int64_t OrderElsewhere();
  // All ranks, which hold their state, have agreed on this order: saves the state again, into the
  // order's directory, where the end's other files go, too. `saved`: the checkpoint is complete
  // already; then only those other files go there, the order is given up, and false is returned.
  bool SaveElsewhere(int64_t steps_done, int64_t order, bool saved);
  // Directory of the end's files, beside the last checkpoint; created if missing. Errors as for
  // FinishShard.
  absl::StatusOr<std::string> DirectoryAtEnd();

  // Reports that an order will not be carried out.
  void GiveUp(int64_t order, const std::string& why);

  // Call before the parameters or the optimizer's state change. Costs almost nothing unless a save
  // has begun since the last call.
  void BeforeChange();

  // The latest save has blocked training for `seconds`.
  void CountBlocked(double seconds);

  // Returns when this rank's saves are durable. On an error, one of MayPass, the final save's shard
  // is not durable; each further call tries again. The state must not have changed.
  absl::Status FinishShard();

  // Call after FinishShard has succeeded on all ranks. Whether the latest save is durable on all of
  // them; false if it failed for good on some rank. Collective.
  bool IsDurableOnAll();

  // On rank 0, if so: returns when the latest save is complete, or will not be: the controller does
  // not answer, or the rank should stop. Errors as for FinishShard, about the manifest.
  absl::Status FinishCommit();

  // Reports that this rank keeps its state after `steps_done` steps because its final files cannot
  // be written. `what`: one line for people with the cause and what is done about it.
  void TellHold(int64_t steps_done, const absl::Status& cause, const std::string& what);
  // The hold is over: reports the final save's outcome again.
  void TellHoldOver();

 private:
  struct Durable {
    SaveStatus save;
    bool committing = false;
  };

  // The final save, kept until its shard or manifest is written, with the error of the latest try.
  struct AtEnd {
    SaveStatus reported;
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
  void BeginCommit(const SaveStatus& save);
  void OnCommitted(const SaveStatus& save, const absl::Status& status, double seconds);
  void Tell(const SaveStatus& save) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(SaveStatus save, SaveFailure failure, std::string why);
  Manifest Describe(int64_t steps_done) const;
  std::string JobDirectoryOf(int64_t order) const;
  std::string DirectoryOf(const SaveStatus& save) const;

  const Parts parts_;

  // Used by the training thread.
  std::optional<Generation> generation_;
  SaverMemory* memory_ = nullptr;
  bool reserved_ = false;
  bool copying_ = false;  // A save has begun since the last BeforeChange.

  mutable absl::Mutex mu_;
  CheckpointFigures figures_ ABSL_GUARDED_BY(mu_);
  // On rank 0: the newest uncommitted saves, by step.
  std::map<int64_t, Durable> durable_ ABSL_GUARDED_BY(mu_);
  Member member_ ABSL_GUARDED_BY(mu_);             // In this generation.
  int64_t last_durable_ ABSL_GUARDED_BY(mu_) = 0;  // Step.
  std::optional<AtEnd> at_end_ ABSL_GUARDED_BY(mu_);

  // By the number of an order that names a directory, from the newest plan.
  std::map<int64_t, std::string> directories_ ABSL_GUARDED_BY(mu_);
  int64_t newest_order_ ABSL_GUARDED_BY(mu_) = 0;    // Number; of this generation.
  int64_t answered_order_ ABSL_GUARDED_BY(mu_) = 0;  // The newest that was begun or given up.
  bool ending_ ABSL_GUARDED_BY(mu_) = false;         // SaveAtEnd was called.
  int64_t end_order_ ABSL_GUARDED_BY(mu_) = 0;       // The end's files go to its directory.

  ShardSaver shards_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SAVING_SAVER_H_
