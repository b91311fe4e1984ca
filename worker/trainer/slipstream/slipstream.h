// A rank's part in a job with Slipstream (docs/decisions/0013-slipstream.md), seen from the thread
// that trains: it asks what to do next, does it, and tells.
//
//   Next ─▶ kUpdate    the optimizer updates the model's parameters          ─▶ OnUpdated
//           kGradient  gradients at the model's parameters, not clipped      ─▶ OnGradient
//           kStop      all ranks stand still, with the same model            ─▶ OnStopped
//           kEnd       the same, for good: the training is done, or the generation is left
//
// A thread of its own takes part in the rounds. It is the only one that uses the plan's groups of
// headers and payloads; in modes of gradients it is the one that updates, with the optimizer.
// What the threads do, and when, is decided by SlipstreamRank; here is it done.
//
// On a device each thread has a stream. The training thread goes on when it has given its stream
// what there is to do: a step that is told of may only be queued, but for a gradient, which is
// there. It is at most one step ahead. The stream of one thread waits for the other one's passes
// over the same memory and for nothing else (pass_order.h), in particular not for a collective.
//
// Steps of the job are rank-steps over ranks, whoever has made them (slipstream/rank_steps.h).
//
// When the first steps of all ranks are over, collectives may take the job's collective_timeout;
// until then, what the groups were made with.
//
// One training thread; Prepare, OrderSave, ReadyToLeave, and what is const: any thread. Torch's
// exceptions pass through; a failed collective of either thread is a CollectiveError.
#ifndef WORKER_TRAINER_SLIPSTREAM_SLIPSTREAM_H_
#define WORKER_TRAINER_SLIPSTREAM_SLIPSTREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "slipstream/plan.h"
#include "slipstream/rank.h"
#include "slipstream/rank_steps.h"
#include "slipstream/round_state.h"
#include "worker/trainer/comm/device_streams.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/plan_builder.h"
#include "worker/trainer/config.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/loop/optimizer.h"
#include "worker/trainer/model/model.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/slipstream/buffers.h"

namespace paceline {

// Of a steady clock.
absl::Time SteadyNow();

// What a rank keeps of Slipstream from one generation of its job to the next.
struct SlipstreamMemory {
  // The rank is a member of the generation of `config`, in which the training goes on from `state`.
  // If it has trained before: as SlipstreamRank::Rejoin.
  void Join(const TrainerConfig& config, const RoundState& state);

  std::function<absl::Time()> now = SteadyNow;  // Any thread. The rank's one clock.
  RankSteps start{1};  // Of a training that begins: the job's steps that a checkpoint has.
  // Unset, null: it has not trained with it.
  std::optional<SlipstreamRank> rank;
  std::unique_ptr<SlipstreamBuffers> buffers;
  SlipstreamFigures figures;
  int64_t own_steps = 0;  // Since the training began; the caller's.
};

class Slipstream {
 public:
  // All of it outlives this.
  struct Parts {
    const TrainerConfig& config;
    Groups& groups;
    std::shared_ptr<const BuiltPlan> plan;  // With `slipstream`.
    // Its parameters and floating-point buffers that are not frozen (running statistics) are what
    // the ranks have in common: x. They keep their storage. Throws c10::ValueError unless all are
    // float32 and dense.
    Model& model;
    Optimizer& optimizer;  // Of these parameters.
    Control& control;      // Told when a plan is prepared and when it is active.
    SlipstreamMemory& memory;
    // Of the model's device; null on a CPU. The constructing thread's stream is that of the
    // training.
    DeviceStreams* streams = nullptr;
  };

  // With a memory without a rank the training begins, or goes on from a checkpoint: collective; all
  // get the model of rank 0. In a mode of gradients the optimizer's state has to be the same on all
  // ranks. Else the rank has joined the plan's generation (slipstream_meeting.h).
  explicit Slipstream(const Parts& parts);
  // Joins the thread: after kEnd, after an error of Next, or when the groups have been aborted. An
  // update or gradient that was ordered and not told of is not made; the memory is fit for the next
  // generation.
  ~Slipstream();
  Slipstream(const Slipstream&) = delete;
  Slipstream& operator=(const Slipstream&) = delete;

  struct Order {
    enum class Kind { kUpdate, kGradient, kStop, kEnd };
    Kind kind = Kind::kEnd;
    // Of the job. kUpdate, kGradient: the 0-based one whose learning rate holds (that of a gradient
    // is taken when it is applied). kStop, kEnd: so many are done.
    int64_t step = 0;
    int64_t ahead = 0;  // Own updates that are not in the job's steps yet, nor lost.
    // What is due at a stop, or was not done yet at the end: a multiple of the period of evaluation
    // or saves is passed; number of the newest save order that all ranks have agreed on, 0: none
    // since the stop before.
    bool evaluates = false;
    bool saves = false;
    int64_t save_order = 0;
  };

  // Makes the copies between model and buffers that are due, waits as need be, and returns what is
  // to be done; `on_wait` is called when a wait begins, also for another reason than the one
  // before. For kGradient the parameters have no gradients. An error: all ranks have stopped, with
  // the same model: Internal if this rank is the cause or cannot be told from it, else Unavailable;
  // it names the round and the ranks. If the ranks' canonical models differ the rank's own has
  // become its model.
  absl::StatusOr<Order> Next(const std::function<void(ComputeOrder::Wait)>& on_wait);

  // The order before is done. `took`: without waits. `loss`: of this rank's step, for the mean of
  // the job; NaN: left out.
  void OnUpdated(absl::Duration took, double loss);
  // The gradients stay untouched until the next order.
  void OnGradient(absl::Duration took, double loss);
  void OnStopped();

  // This rank cannot go on: orders are waits, and stops that all are at, until all have been told
  // and Next fails on all of them. The step that was ordered, if any, is not made.
  void SetFault(const std::string& reason);

  // Votes for the plan from now on. One that has no `slipstream`, or does not fit, fails, which the
  // control is told.
  void Prepare(const TrainingPlan& plan);
  // Votes for a stop for it. Older ones than known are ignored.
  void OrderSave(int64_t number);
  // Votes for the end of this generation: all settle, then kEnd.
  void ReadyToLeave(int64_t generation);

  // A bit of this rank's canonical model changes at the end of the next round (chaos).
  void FlipBit();

  // The error of Next is that the ranks' canonical models differ.
  bool models_differ() const;
  int64_t rounds() const;  // Finished ones.
  // Of the job, in finished rounds.
  RankSteps total() const;
  int64_t steps_done() const { return total().steps(); }
  SlipstreamPlan plan() const;  // In force.
  SlipstreamFigures figures() const;
  // Since it was asked last: what this rank has sent in collectives.
  int64_t TakeSentBytes();

 private:
  struct Shared;
  const std::unique_ptr<Shared> shared_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_SLIPSTREAM_H_
