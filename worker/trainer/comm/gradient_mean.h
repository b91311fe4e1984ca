// The backward pass of a rank, after which every gradient is the mean over a group of ranks.
//
// This is torch's own Reducer, as Python's DistributedDataParallel uses it: gradients are
// gathered in buckets, and a bucket is reduced as soon as it is full, while the backward
// pass goes on. The gradients are views of the buckets, which saves copying them back.
// Without a group, or alone in it, a rank keeps its own gradients and goes without.
//
// Torch's Reducer lays its buckets out anew after its first step, in the order in which gradients
// became ready, and what is added in which order depends on the layout. With that order known from
// the start, the first step computes what any later one does.
//
// Thread-compatible. Torch's exceptions pass through; a failed reduction is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_GRADIENT_MEAN_H_
#define WORKER_TRAINER_COMM_GRADIENT_MEAN_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"
#include "worker/trainer/model/model.h"

namespace paceline {

class GradientMean {
 public:
  // Gradients travel in `format`: fp32, fp16 or bf16, as Python's hooks of these names do it.
  // The parameters, equal on all ranks at each change of the group, are used in no backward
  // pass after this. `unused`: a pass may leave some out, which then contribute zero; where all
  // ranks have left one out, it has no gradient, as with DistributedDataParallel's
  // find_unused_parameters. No group at first. `order`: indices of the parameters as their
  // gradients become ready (GradientOrder), if it is known and training is behind its first step;
  // equal on all ranks.
  GradientMean(std::vector<NamedTensor> parameters, WireFormat format, bool unused,
               std::vector<int64_t> order = {});
  ~GradientMean();

  // The group over which the coming steps average; null: none. It outlives its use here.
  // Between two steps.
  void SetGroup(Group* group);
  // Null if none is needed.
  Group* group() const;

  // To be called before each forward pass in training. `last`: the last one of a step, after
  // whose backward pass the sum of the step's gradients is reduced.
  void BeginForward(bool last);

  // Adds the gradients of `loss` to those of the parameters. `on_computed` is called once, when
  // they are computed and only the rest of the reduction is waited for. Before the first pass
  // of a step parameters have no gradient. Throws c10::ValueError that names the parameters which
  // the last pass has left out, unless it may.
  void Backward(const at::Tensor& loss, const std::function<void()>& on_computed);

  // That this rank sends for one reduction.
  int64_t bytes() const;

  // For another one of the same parameters: the order that was given, or else that of the first
  // backward pass. Empty: there was none.
  const std::vector<int64_t>& order() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Records in which order the gradients of parameters become ready in a backward pass.
class GradientOrder {
 public:
  explicit GradientOrder(const std::vector<NamedTensor>& parameters);
  ~GradientOrder();
  GradientOrder(const GradientOrder&) = delete;
  GradientOrder& operator=(const GradientOrder&) = delete;

  // After each pass: indices of the parameters, of all that have got a gradient in it.
  std::vector<int64_t> Take();
  // Indices of the others come last.
  std::vector<int64_t> Completed(std::vector<int64_t> order) const;

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<unsigned> hooks_;
  std::vector<int64_t> order_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_GRADIENT_MEAN_H_
