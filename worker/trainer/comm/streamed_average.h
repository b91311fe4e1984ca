// The averages of a level whose outer step is streamed (core/stream_schedule.h): of one fragment of
// the model at a time, and beside the training if they have a delay.
//
//   Begin    sends what the fragment's parameters are now
//   TakeUp   waits for their mean, makes the outer step, and moves this rank's parameters of the
//            fragment, which have been trained meanwhile, to the point after it:
//
//              parameter = point + alpha (parameter - point)
//
// as torchft's DiLoCo does (torchft/local_sgd.py, _StreamingDiLoCoFragment). The result depends on
// the steps at which both are called, and not on when the mean arrives. What was given to an
// average is kept until that is taken up, so that another generation can send it again.
//
// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError, and
// leaves a state that goes on in the next generation.
#ifndef WORKER_TRAINER_COMM_STREAMED_AVERAGE_H_
#define WORKER_TRAINER_COMM_STREAMED_AVERAGE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/level_states.h"
#include "worker/trainer/comm/model_averager.h"
#include "worker/trainer/comm/outer_step.h"
#include "worker/trainer/core/stream_rendezvous.h"
#include "worker/trainer/core/stream_schedule.h"

namespace paceline {

class StreamedAverage {
 public:
  // All must outlive this. The parameters are those of `averager`, and the vectors of `outer` are
  // of all of them.
  struct Parts {
    Group& group;  // For these averages alone.
    ModelAverager& averager;
    OuterStep& outer;
  };
  // The first step is `first_step`.
  StreamedAverage(const Parts& parts, StreamSchedule schedule, double alpha, int64_t first_step);

  // Goes on where another object of the same group was; call SendAgain before the next step.
  void Resume(const StreamMemory& memory);
  // If the average under way has no result yet, and was not sent by this object: sends it.
  void SendAgain();

  // Whether an average begins after `step`, and has not begun.
  bool IsToBegin(int64_t step) const;
  // Begins it. `riders`: float [kStepRiders], summed along with it. Returns the bytes that this
  // rank sends.
  int64_t Begin(int64_t step, const at::Tensor& riders);

  // Whether one is under way that is to be taken up after `step`, or was to be before.
  bool IsDue(int64_t step) const;
  // Takes it up. Returns the sums of the riders; undefined if the result came from another rank.
  at::Tensor TakeUp();
  // Waits for one that is under way, and makes nothing of it.
  void Drop();

  // Whether all ranks are equal after each TakeUp: none keeps anything of its own.
  bool makes_equal() const { return alpha_ == 0 && fragments_.size() == 1; }

  StreamMemory Memory() const { return {position_, sent_}; }

 private:
  const Fragment& current() const { return fragments_[schedule_.FragmentOf(position_.begun)]; }
  void Send();
  // Moves the parameters of the fragment to the point.
  void Merge(const Fragment& fragment) const;
  void Forget();

  const Parts parts_;
  const StreamSchedule schedule_;
  const double alpha_;
  const std::vector<Fragment> fragments_;
  StreamPosition position_;
  at::Tensor sent_;             // StreamMemory::sent
  at::Tensor sum_;              // What the collective works on; undefined: none is under way.
  std::function<void()> wait_;  // For it.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STREAMED_AVERAGE_H_
