// Replaces parameters by their mean over a group of ranks, or by what an outer step makes of it.
//
// Where parameters have a compensation (loop/compensated_update.h), weights are averaged: the sums
// of both, in float. Both then hold the mean, so that the members have an equal compensation too.
//
// The list of parameters is fixed. They are copied to a reused flat buffer, divided by the number
// of ranks, summed, and copied back in place, so that references to their storage stay valid. As in
// PyTorch's model averagers, division comes before the sum; results are equal bit for bit if the
// collective adds in the same order.
//
// A few values can ride along with a mean, so that the ranks' other exchanges need no collective of
// their own.
//
// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_MODEL_AVERAGER_H_
#define WORKER_TRAINER_COMM_MODEL_AVERAGER_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/outer_step.h"
#include "worker/trainer/comm/quantized_mean.h"

namespace paceline {

// Describes one mean.
struct Mean {
  Group& group;
  std::vector<at::Tensor> state;  // Also averaged; equal shapes on all members.
  at::Tensor riders;              // Flat or undefined: replaced by the sum over the members.
  bool measure = false;           // Updates drift().
  // How the parameters travel; null: as they are. The mean becomes its reference, unless weights
  // are rounded (rounds()): then that is the caller's to set afterwards.
  QuantizedMean* quantized = nullptr;
  // The outer step that the mean ends in; null: none. Its point, and with it the reference of
  // `quantized`, is the caller's to set afterwards.
  OuterStep* outer = nullptr;
  // Called when the result is whole, before anything of it is applied. An exception from it leaves
  // parameters, state, the reference of `quantized` and `outer` as they are, and latest() is
  // this result. Null: it is applied at once.
  std::function<void()> before_applying = {};
};

class ModelAverager {
 public:
  // `parameters` are averaged; all must be on one device. `compensation`: of each, or empty.
  explicit ModelAverager(const std::vector<at::Tensor>& parameters,
                         std::vector<at::Tensor> compensation = {});

  // Returns the bytes that this rank sent.
  int64_t Average(const Mean& mean);

  // The weights' current values, float [all of them]. Valid until the next call of a method.
  at::Tensor Flat();

  // Whether weights are shorter than float, so that they hold a mean only nearly.
  bool rounds() const { return rounds_; }

  // The parameters from `first` to before `end` as one float vector, a copy, and back. Without
  // compensation.
  at::Tensor Part(size_t first, size_t end) const;
  void SetPart(size_t first, size_t end, const at::Tensor& values) const;
  // Number of values of each parameter.
  std::vector<int64_t> sizes() const;

  // The result of the latest mean: weights, after its outer step, then state, as one vector,
  // float or wider. Undefined before the first mean; valid until the next call of Average.
  at::Tensor latest() const;

  // Norm of the change of the parameters by the latest mean that measured it; 0 before. On a GPU it
  // may be that of an earlier mean, since this never waits.
  double drift() const;

 private:
  std::vector<at::Tensor> Views(size_t count) const;  // The first `count`.
  // Adds the compensation to parameters that were copied to the first views.
  void AddCompensation(const std::vector<at::Tensor>& views) const;
  int64_t Reduce(Group& group, const at::Tensor& values, const at::Tensor& riders);
  // Makes buffer_ large enough and sets views_.
  void Arrange(const std::vector<at::Tensor>& state, int64_t riders);
  // Makes the outer step from the mean in buffer_.
  void StepFromMean(OuterStep& outer);
  // Sets drift_ to how far the result in buffer_ is from the weights. Spoils the parameters.
  void MeasureDrift();

  const std::vector<at::Tensor> parameters_;  // Detached, with the storage of the originals.
  const std::vector<at::Tensor> compensation_;
  const at::ScalarType type_;  // Of buffer_'s elements.
  const int64_t values_;       // Elements of all parameters.
  const bool rounds_;
  at::Tensor buffer_;              // Holds parameters, state and riders.
  std::vector<at::Tensor> views_;  // Into buffer_: parameters, then state.
  int64_t latest_ = 0;             // Number of values of the latest mean in buffer_.
  at::Tensor drift_;               // On the host; undefined before the first mean.
};

// Bytes that each of `ranks` ranks sends in an all-reduce of `bytes`: 2 (n - 1) / n of it.
int64_t AllReduceBytes(int64_t bytes, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_MODEL_AVERAGER_H_
