// State shared by the two threads of a Slipstream.
#ifndef WORKER_TRAINER_SLIPSTREAM_SLIPSTREAM_SHARED_H_
#define WORKER_TRAINER_SLIPSTREAM_SLIPSTREAM_SHARED_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "slipstream/group_steps.h"
#include "worker/trainer/comm/plan_progress.h"
#include "worker/trainer/comm/quantized_sum.h"
#include "worker/trainer/slipstream/optimizer_state.h"
#include "worker/trainer/slipstream/pass_order.h"
#include "worker/trainer/slipstream/slipstream.h"

namespace paceline {

struct Slipstream::Shared {
  explicit Shared(const Parts& parts_in)
      : parts(parts_in),
        buffers(*parts.memory.buffers),
        state(parts.optimizer),
        learning_rate(MakeLearningRate(parts.model.device())),
        progress(parts.control),
        group(parts.plan->gradients->size()),
        order(parts.streams),
        rank(&*parts.memory.rank),
        figures(parts.memory.figures) {}

  absl::Time Now() const { return parts.memory.now(); }
  void Run();
  void Drain();
  bool MakeNext();
  void Make(const CommOrder& order, const SlipstreamRank::Buffers& names);
  void Copy(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names);
  void ResetOptimizer();
  void Exchange();
  void Fill(CommOrder::Fill fill, const SlipstreamRank::Buffers& names);
  void Reduce(const CommOrder::Payload& payload);
  void Sum(const at::Tensor& tensor);
  void Confirm();
  void Apply(const CommOrder::Payload& payload, const SlipstreamRank::Buffers& names);
  // An order for the training thread, what came with it, and the number of reports by then.
  struct Ordered {
    ComputeOrder order;
    absl::Time at;
    SlipstreamRank::Buffers names;
    int64_t reported = 0;
    int64_t update_periods = 0;
  };
  Ordered Ask();
  void MakeCopy(const Ordered& ordered);
  absl::StatusOr<Order> Begin(const Ordered& ordered);
  bool GroupAgrees(const Ordered& ordered);
  // Waits for the other thread's next report. Drops the ordered step, if there is one.
  void Wait(const Ordered& ordered, bool asks_group);
  // Called from the job's first steps on.
  void SetTimeout() const { parts.groups.SetTimeout(parts.config.collective_timeout); }
  Order Describe(ComputeOrder::Kind kind) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  absl::Status Fault() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
  // Waits until the other thread has reported something since `reported` was `seen`.
  void WaitForWord(int64_t seen, absl::Duration timeout) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);

  // Holds the mutex while the machine is told something; then lets the other thread know.
  class ABSL_SCOPED_LOCKABLE Telling {
   public:
    explicit Telling(Shared& shared) ABSL_EXCLUSIVE_LOCK_FUNCTION(shared.mu) : shared_(shared) {
      shared_.mu.Lock();
    }
    ~Telling() ABSL_UNLOCK_FUNCTION() {
      ++shared_.reported;
      shared_.mu.Unlock();
    }
    Telling(const Telling&) = delete;
    Telling& operator=(const Telling&) = delete;

   private:
    Shared& shared_;
  };

  const Parts parts;
  SlipstreamBuffers& buffers;  // Passes are made as the machine orders.
  // Used by the communication thread.
  OptimizerState state;
  const at::Tensor learning_rate;
  PlanProgress progress;
  GroupSteps group;                      // Used by the training thread.
  std::optional<QuantizedSum> int8_sum;  // Of updates in this format.

  // Used by both threads, on the model's device. Must follow everything that allocates there.
  PassOrder order;

  absl::Mutex mu;
  SlipstreamRank* const rank ABSL_PT_GUARDED_BY(mu);
  SlipstreamFigures& figures ABSL_GUARDED_BY(mu);
  int64_t sent_bytes ABSL_GUARDED_BY(mu) = 0;  // Not taken yet.
  int64_t reported ABSL_GUARDED_BY(mu) = 0;
  bool stopping ABSL_GUARDED_BY(mu) = false;
  bool flips_bit ABSL_GUARDED_BY(mu) = false;
  std::exception_ptr failure ABSL_GUARDED_BY(mu);  // Ended the thread.

  std::thread thread;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_SLIPSTREAM_SHARED_H_
