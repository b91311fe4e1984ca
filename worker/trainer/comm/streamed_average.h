// The averages of a level whose outer step is streamed (core/stream_schedule.h): of one fragment of
// the model at a time, and beside the training if they have a delay.
//
//   Begin    sends what the fragment's parameters are now
//   Turn     in a format below fp32, whose mean has two exchanges (quantized_mean.h): waits for the
//            first one, and begins the second
//   TakeUp   waits for their mean, makes the outer step, and moves this rank's parameters of the
//            fragment, which have been trained meanwhile, to the point after it:
//
//              parameter = point + alpha (parameter - point)
//
// as torchft's DiLoCo does (torchft/local_sgd.py, _StreamingDiLoCoFragment). The result depends on
// the steps at which they are called, and not on when the mean arrives. What was given to an
// average is kept until that is taken up, so that another generation can send it again.
//
// Rounding errors are kept for each fragment, and sent with its next average. Those after an
// average count once it is taken up: until then it is sent again with those before it, and so with
// the same bits; one that is dropped leaves them as they were. A rank that gets the result from
// others has sent all of its part, and goes on with those after it. Other groups begin with none.
//
// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError, and
// leaves a state that goes on in the next generation.
#ifndef WORKER_TRAINER_COMM_STREAMED_AVERAGE_H_
#define WORKER_TRAINER_COMM_STREAMED_AVERAGE_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/level_states.h"
#include "worker/trainer/comm/model_averager.h"
#include "worker/trainer/comm/outer_step.h"
#include "worker/trainer/comm/quantized_mean.h"
#include "worker/trainer/comm/row_codec.h"
#include "worker/trainer/core/stream_rendezvous.h"
#include "worker/trainer/core/stream_schedule.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

class StreamedAverage {
 public:
  // All must outlive this. The parameters are those of `averager`, and the vectors of `outer` are
  // of all of them.
  struct Parts {
    Group& group;  // For these averages alone.
    ModelAverager& averager;
    OuterStep& outer;
    RowCodec& codec;
    std::optional<RowFormat> format;  // Nothing: parameters travel in fp32.
  };
  // The first step is `first_step`.
  StreamedAverage(const Parts& parts, StreamSchedule schedule, double alpha, int64_t first_step);

  // Goes on where another object of the same group was; call SendAgain before the next step.
  void Resume(const LevelMemory& memory);
  // If the average under way has no result yet, and was not sent by this object: sends it.
  void SendAgain();

  // Whether an average begins after `step`, and has not begun.
  bool IsToBegin(int64_t step) const;
  // Begins it. `riders`: float [kStepRiders], summed along with it. Returns the bytes that this
  // rank sends for all of it.
  int64_t Begin(int64_t step, const at::Tensor& riders);

  // Whether one is under way whose second exchange is to begin after `step`, or was to be before.
  bool IsToTurn(int64_t step) const;
  void Turn();

  // Whether one is under way that is to be taken up after `step`, or was to be before.
  bool IsDue(int64_t step) const;
  // Takes it up; it has turned. Returns the sums of the riders; undefined if the result came from
  // another rank.
  at::Tensor TakeUp();
  // Ends the exchanges of one that is under way, and makes nothing of it.
  void Drop();

  // Whether all ranks are equal after each TakeUp: none keeps anything of its own.
  bool makes_equal() const { return alpha_ == 0 && fragments_.size() == 1; }

  // Whether the result of one that is under way is not known.
  bool is_waiting() const { return position_.is_waiting(); }
  // Adds what it keeps to that of its level.
  void AddMemory(LevelMemory* level) const;
  // This rank's own tensors, by name: rounding errors still to be sent.
  std::vector<NamedTensor> Own() const;

 private:
  // Of a fragment.
  struct Rounding {
    MeanMessages messages;
    // Its residuals, in residuals_.
    int64_t first_own;
    int64_t first_mean;

    QuantizedMean::Residuals Of(const QuantizedMean::Residuals& all) const;
  };

  bool rounds() const { return !roundings_.empty(); }
  size_t current_number() const { return schedule_.FragmentOf(position_.begun); }
  const Fragment& current() const { return fragments_[current_number()]; }
  const Rounding& rounding() const { return roundings_[current_number()]; }
  void Send();
  // What has come: the mean of the fragment's values, and the sums of the riders.
  struct Received {
    at::Tensor mean;
    at::Tensor riders;
  };
  Received Receive() const;
  // The rounding errors after the average under way, as far as they are known.
  QuantizedMean::Residuals ResidualsAfter() const;
  // Moves the parameters of the fragment to the point.
  void Merge(const Fragment& fragment) const;
  void Forget();

  const Parts parts_;
  const StreamSchedule schedule_;
  const double alpha_;
  const std::vector<Fragment> fragments_;
  // Of a format below fp32; by fragment, and of all fragments. Those before the average under way.
  std::vector<Rounding> roundings_;
  QuantizedMean::Residuals residuals_;
  StreamPosition position_;
  at::Tensor sent_;  // StreamMemory::sent
  // Of the fragment, after the average under way; undefined ones: it has not come so far.
  QuantizedMean::Residuals after_;
  at::Tensor received_;         // What the collective under way works on.
  std::function<void()> wait_;  // For it; null: this object has begun none.
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STREAMED_AVERAGE_H_
