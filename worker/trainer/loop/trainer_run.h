// One rank's training over its whole life, as whoever makes the steps sees it: it gets its
// configuration, prepares, meets the others, trains, and goes on in the next generation when ranks
// are lost or replaced.
//
//   Open ─▶ Load ─▶ Next ─┬▶ kStep ─────▶ for each pass: step().BeginPass, [next batch],
//                    ▲    │               BeginForward, [loss], Backward
//                    │    │               then BeforeUpdate, [optimizer], Updated, EndStep ─▶ Next
//                    │    ├▶ kEvaluate ─▶ [score of this rank's share], evaluation().End ───▶ Next
//                    │    ╰▶ kDone ─────▶ Finish, and the process exits
//                    ╰── anything of these may throw: Do says whether that is the end ──────▶ Next
//
// Next meets generations and leaves them, saves, takes plans up, and waits.
#ifndef WORKER_TRAINER_LOOP_TRAINER_RUN_H_
#define WORKER_TRAINER_LOOP_TRAINER_RUN_H_

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/connecting.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/generation/session.h"
#include "worker/trainer/generation/succession.h"
#include "worker/trainer/loop/training.h"
#include "worker/trainer/loop/workload.h"
#include "worker/trainer/report/figures.h"

namespace paceline {

struct Rendezvous;

// Thread-compatible. Stops torch's exceptions, and those of the parts that are passed to Do. Do not
// destroy it before the process exits: threads may be stuck in a broken group, while exiting closes
// its connections, so that other ranks notice at once.
class TrainerRun {
 public:
  // Files made on request that have no other place go to `directory`, the trainer's own. The
  // references must outlive this.
  TrainerRun(Control& control, StepRingWriter& ring, Platform& platform, std::string directory);
  ~TrainerRun();
  TrainerRun(const TrainerRun&) = delete;
  TrainerRun& operator=(const TrainerRun&) = delete;

  // Waits for the configuration, and opens the device. The number of torch's threads stays as it
  // is: that is for the program to set.
  void Open();
  const TrainerConfig& config() const { return *session_.config; }  // Requires: ok().
  at::Device device() const { return session_.device; }

  // Restores, and says that this rank is ready. `workload` must outlive this.
  void Load(Workload& workload);

  // What is next. kDone: also after an error. Never kLeft.
  StepOrder Next();

  // Does a part of what is done outside: of the preparations, a step or an evaluation. If it fails
  // because of a collective that a lost rank has cut off, or because the generation is over, then
  // Next goes on with the next generation; any other failure ends the training. An exception counts
  // as that of a collective, whatever its type, when one of the generation's has failed. Does
  // nothing after an error.
  void Do(const std::function<absl::Status()>& part);

  // What is done outside has failed by an exception that does not come from `Do`. True: because of
  // a collective or the generation's end, as there; Next goes on with the next generation.
  // `collective`: it is known to come from a collective. False: it is the caller's; nothing has
  // changed. `what`: one line about it.
  bool CutOff(absl::string_view what, bool collective);
  // Whether the order under way has failed, so that Next must be called.
  bool is_cut_off() const { return failure_.has_value(); }
  // Ends the training because of a failure of the caller's.
  void Fail(const absl::Status& status);

  // For the order under way.
  LocalStep& step() { return generation_->training->step(); }
  void Updated() { generation_->training->Updated(); }
  absl::Status EndStep() { return generation_->training->EndStep(); }
  JobEvaluation& evaluation() { return generation_->training->evaluation(); }
  // A group of all members for the caller's own collectives, over tensors of the device. They end
  // with the generation, as the training's do. Within a step, this thread's waits for them are
  // shown as communication. The first call of a generation makes the group: all
  // members must call it between the same collectives, and it may throw CollectiveError.
  Group& CallersGroup();
  // A save is due once the step is done, as one by steps is. All members must ask in the same step.
  // Does nothing without a checkpoint directory. With Slipstream, it is due when the ranks go back
  // to another strategy.
  void AskForSave() { session_.state.saver.asked = true; }
  // What the caller's code has reported of its steps, in the place of what it said before: the
  // daemon hears of it with the next figures, and with those of later generations.
  void Report(std::vector<ReportedNumber> numbers) { session_.state.reported = std::move(numbers); }
  // As Profiler::GiveUp, if there is a training.
  void GiveUpProfile(const std::string& why);

  // Whether nothing has ended the training yet.
  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }

  // Whether threads may hang in groups, or use them, as long as the process lives: a generation was
  // left by a failure, or, after Finish, in the midst of Slipstream's rounds or of an average.
  bool has_broken_groups() const { return has_broken_groups_; }

  // Reports the end by Control::Finish. Returns the exit code.
  int Finish();

 private:
  // What belongs to one generation, in the order in which it is made.
  struct Generation {
    int64_t number = 0;
    TrainerConfig config;
    Connected connected;
    std::optional<Succession> succession;
    std::unique_ptr<Training> training;
    // The strategy differs from the previous generation's, and training has not begun yet.
    bool changes_strategy = false;
  };
  // Why a part ended. `collective`: a collective failed, perhaps because the generation is over.
  struct Failure {
    absl::Status status;
    bool collective = false;
  };

  // Whether the generation is over or one of its collectives has failed: then an error of any type
  // may follow from that, as autograd and a caller's language give those of collectives other
  // types.
  bool lost_collectives() const;
  // Whether what this rank does outside of collectives is to be cut off: the generation is over, or
  // the training was stopped. Any thread. Requires: the conductor is there.
  bool is_interrupted() const { return session_.conductor->is_over() || control_.stop_requested(); }
  // Turns torch's exceptions into the codes that Control::Finish names. Nothing: the part is done.
  std::optional<Failure> Guard(const std::function<absl::Status()>& part);
  absl::Status OutOfMemory(absl::string_view message);
  // As LocalStep::ShowWait; does nothing between steps.
  void ShowWait(bool waits);

  TrainerConfig ConfigOf(const Assignment& assignment, const TrainingPlan& plan) const;
  std::unique_ptr<Connecting> Connect(const Assignment& assignment, const TrainingPlan& plan);
  TrainingParts PartsOf(Generation& generation, bool begins);
  Rendezvous RendezvousOf(const Generation& generation);
  absl::StatusOr<bool> RunRendezvousOfMembers(const Assignment& assignment,
                                              const Rendezvous& rendezvous);
  // Waits for a generation and meets its members. False: the training ends.
  bool Enter();
  // With shards: the model becomes that of this rank's position. One that it had at another
  // position is lost.
  void TakePosition(const BuiltPlan& plan);
  // Makes what keeps copies of the state in host memory, if the job has them.
  void MakeCopies();
  // Ends what is under way in their threads, before the process exits. `stops`: others may not do
  // their part.
  void FinishCopies(bool stops);
  // RunRendezvousOfMembers; before that, goes back to the copies if the assignment says so.
  absl::StatusOr<bool> RunRendezvousWithCopies(const Assignment& assignment,
                                               const Rendezvous& rendezvous);
  // Connects the members, if needed, meets them, and prepares the training.
  absl::Status Meet(const Assignment& assignment);
  // All ranks leave the generation together. What fails is a failure of the order under way.
  void LeaveTogether();
  // If this rank leaves for one that nobody else could give the state: hands it over.
  void HandOver();
  // The group in which a state is handed over is to be aborted with the generation's; null: none.
  void NoteHandOver(std::shared_ptr<Group> pair);
  // Leaves the generation after a failure. False: the training ends.
  bool LeaveFailed(const Failure& failure);
  // Ends everything of the generation except its groups; the state stays. Nothing: it is done.
  std::optional<Failure> EndTraining();
  void LogLeft(const absl::Status& why, absl::Time since, bool reported, double error_ms);

  Control& control_;
  StepRingWriter& ring_;
  Platform& platform_;
  const std::string directory_;
  Session session_;
  std::optional<Succession::Next> connected_;  // Beside the previous generation.
  std::unique_ptr<Generation> generation_;     // Null: between two.
  std::optional<Failure> failure_;             // Of the order under way.
  absl::Status status_;
  bool has_broken_groups_ = false;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_LOOP_TRAINER_RUN_H_
