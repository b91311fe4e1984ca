// A rank's part in a job with Slipstream (docs/decisions/0013-slipstream.md), as the training
// thread sees it: it asks what to do next, does it, and reports back.
//
//   Next ─▶ kUpdate    the optimizer updates the model's parameters          ─▶ OnUpdated
//           kGradient  gradients at the model's parameters, not clipped      ─▶ OnGradient
//           kStop      all ranks stand still, with the same model            ─▶ OnStopped
//           kEnd       the same, for good: the training is done, or the generation is left
//
// A separate thread takes part in the rounds. Only this thread uses the plan's groups of headers
// and payloads; in gradient modes it also updates, with the optimizer. SlipstreamRank decides what
// the threads do, and when; this class does it.
//
// On a device each thread has a stream. The training thread continues once its work is enqueued: a
// reported step may only be queued (a reported gradient is complete). It is at most one step ahead.
// One thread's stream waits only for the other's passes over the same memory (pass_order.h), in
// particular not for collectives.
//
// Steps of the job are rank-steps divided by ranks, whoever made them (slipstream/rank_steps.h).
//
// Collectives have the groups' initial timeout until all ranks have done their first steps, then
// the job's collective_timeout.
//
// One training thread. Any thread: Prepare, OrderSave, ReadyToLeave, and const methods. Torch's
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
#include "worker/trainer/model/model_tensors.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/slipstream/buffers.h"

namespace paceline {

// The time on a steady clock.
absl::Time SteadyNow();

// What a rank keeps of Slipstream from one generation to the next.
struct SlipstreamMemory {
  // Makes the rank a member of the generation of `config`, in which training continues from
  // `state`. If it has trained before, this is SlipstreamRank::Rejoin.
  void Join(const TrainerConfig& config, const RoundState& state);

  std::function<absl::Time()> now = SteadyNow;  // Any thread. The rank's only clock.
  RankSteps start{1};  // The job's steps in a checkpoint, for a training that begins.
  // Unset or null: the rank has not trained with Slipstream.
  std::optional<SlipstreamRank> rank;
  std::unique_ptr<SlipstreamBuffers> buffers;
  SlipstreamFigures figures;
  int64_t own_steps = 0;  // Since the training began; kept by the caller.
};

class Slipstream {
 public:
  // All of these must outlive this object.
  struct Parts {
    const TrainerConfig& config;
    Groups& groups;
    std::shared_ptr<const BuiltPlan> plan;  // With `slipstream`.
    // x, the tensors that ranks share, is its parameters and floating-point buffers that are not
    // frozen (running statistics). They keep their storage. Throws c10::ValueError unless all are
    // float32 and dense.
    ModelTensors& model;
    Optimizer& optimizer;  // For these parameters.
    Control& control;      // Is told when a plan is prepared and when it is active.
    SlipstreamMemory& memory;
    // Streams of the model's device; null on a CPU. The constructing thread's current stream is the
    // training's.
    DeviceStreams* streams = nullptr;
    bool evaluates = false;  // Whether there is something to evaluate at eval_every.
    // The learning rate of a step of the job, which never falls. Called by the communication
    // thread, before each update that it makes.
    std::function<double(int64_t step)> learning_rate;
  };

  // If the memory has no rank, the training begins or continues from a checkpoint: collective; all
  // get rank 0's model, and in a gradient mode the optimizer's state must be equal on all ranks.
  // Otherwise the rank has joined the plan's generation (slipstream_rendezvous.h).
  explicit Slipstream(const Parts& parts);
  // Joins the thread: call it after kEnd, after an error of Next, or when the groups were aborted.
  // An update or gradient that was ordered but not reported counts as not made; the memory is fit
  // for the next generation.
  ~Slipstream();
  Slipstream(const Slipstream&) = delete;
  Slipstream& operator=(const Slipstream&) = delete;

  struct Order {
    enum class Kind { kUpdate, kGradient, kStop, kEnd };
    Kind kind = Kind::kEnd;
    // Step of the job. For kUpdate and kGradient: 0-based, the one whose learning rate applies (for
    // a gradient, it is read again when applied). For kStop and kEnd: the number of steps done.
    int64_t step = 0;
    int64_t ahead = 0;  // Own updates not in the job's steps yet, nor lost.
    // What is due at a stop, or not done yet at the end: whether a multiple of the period of
    // evaluation or saves was passed; number of the newest save order that all ranks have agreed
    // on, 0: none since the previous stop.
    bool evaluates = false;
    bool saves = false;
    int64_t save_order = 0;
  };

  // Makes due copies between model and buffers, waits as needed, and returns what to do. `on_wait`
  // is called when a wait begins or its reason changes. For kGradient the parameters have no
  // gradients. On an error all ranks have stopped with the same model: Internal if this rank is the
  // cause or cannot be excluded, otherwise Unavailable; the message names the round and the ranks.
  // If the ranks' canonical models differ, this rank's own has become its model.
  absl::StatusOr<Order> Next(const std::function<void(ComputeOrder::Wait)>& on_wait);

  // Reports that the order was carried out. `took` excludes waits. `loss` is this rank's, for the
  // job's mean; NaN: left out.
  void OnUpdated(absl::Duration took, double loss);
  // Takes the gradients out of the parameters.
  void OnGradient(absl::Duration took, double loss);
  void OnStopped();

  // This rank cannot continue: it only gets waits, and stops that all ranks are at, until all know
  // and Next fails on all of them. A step that was ordered is not made.
  void SetFault(const std::string& reason);

  // Votes for the plan from now on. A plan without `slipstream`, or one that does not fit, fails;
  // the control is told.
  void Prepare(const TrainingPlan& plan);
  // Votes for a stop for this save order. Ignores orders older than those known.
  void OrderSave(int64_t number);
  // Votes for the end of this generation: all settle, then kEnd.
  void ReadyToLeave(int64_t generation);

  // Flips a bit of this rank's canonical model at the end of the next round (chaos).
  void FlipBit();

  // Whether Next failed because the ranks' canonical models differ.
  bool models_differ() const;
  int64_t rounds() const;  // Finished rounds.
  // The job's steps in finished rounds.
  RankSteps total() const;
  int64_t steps_done() const { return total().steps(); }
  SlipstreamPlan plan() const;  // In force now.
  SlipstreamFigures figures() const;
  // Bytes that this rank has sent in collectives since the last call.
  int64_t TakeSentBytes();

 private:
  struct Shared;
  const std::unique_ptr<Shared> shared_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_SLIPSTREAM_H_
