// A rank's backward pass, after which each gradient is the mean over a group of ranks.
//
// This is torch's own Reducer, as in Python's DistributedDataParallel: gradients are gathered in
// buckets, and a full bucket is reduced at once while the backward pass goes on. The gradients are
// views of the buckets, which saves a copy. A rank without a group, or alone in it, keeps its own
// gradients and needs no Reducer. Nor does a model whose backward passes take the mean themselves.
//
// After its first step, torch's Reducer rearranges its buckets in the order in which gradients
// became ready; the layout determines the order of additions. If that order is known from the
// start, the first step computes exactly what later steps do.
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
#include "worker/trainer/comm/quantized_gradients.h"
#include "worker/trainer/config.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

class GradientMean {
 public:
  // Gradients travel in `format`: fp32, fp16 or bf16, like Python's hooks of these names; or as
  // `quantized`, which must outlive this, does it. The parameters are equal on all ranks at each
  // change of the group; after this object they can be used in no backward pass. `unused`: a pass
  // may leave some parameters out, which then contribute zero; one that all ranks leave out has no
  // gradient (find_unused_parameters of DistributedDataParallel). There is no group at first.
  // `order`: indices of the parameters in the order in which their gradients become ready
  // (GradientOrder), equal on all ranks, if known from an earlier step. `on_group`: the backward
  // passes take the mean, over the group that this is called with at each change of it.
  GradientMean(std::vector<NamedTensor> parameters, WireFormat format, bool unused,
               std::vector<int64_t> order = {}, std::function<void(Group*)> on_group = {},
               QuantizedGradients* quantized = nullptr);
  ~GradientMean();

  // Sets the group for later steps' averages; null: none. The group must outlive its use here. Call
  // it between two steps.
  void SetGroup(Group* group);
  // Null if no group is needed.
  Group* group() const;

  // Call before each forward pass in training. `last`: the step's last pass, after whose backward
  // pass the sum of the step's gradients is reduced.
  void BeginForward(bool last);

  // Adds the gradients of `loss` to those of the parameters. Calls `on_computed` once, when they
  // are computed and only the reduction is awaited. Parameters have no gradient before the first
  // pass of a step. Throws c10::ValueError that names parameters without a gradient in a step's
  // last pass, unless `unused`.
  void Backward(const at::Tensor& loss, const std::function<void()>& on_computed);

  // Bytes that this rank sends for one reduction; as `quantized`: that it has sent for the latest.
  int64_t bytes() const;

  // The order that was given, or that of the first backward pass; empty if there was none. For
  // another GradientMean with the same parameters.
  const std::vector<int64_t>& order() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Records the order in which parameters' gradients become ready in a backward pass.
class GradientOrder {
 public:
  explicit GradientOrder(const std::vector<NamedTensor>& parameters);
  ~GradientOrder();
  GradientOrder(const GradientOrder&) = delete;
  GradientOrder& operator=(const GradientOrder&) = delete;

  // Call after each pass: returns the indices of all parameters that got a gradient.
  std::vector<int64_t> Take();
  // Appends the missing indices to `order`.
  std::vector<int64_t> Completed(std::vector<int64_t> order) const;

 private:
  std::vector<at::Tensor> parameters_;
  std::vector<unsigned> hooks_;
  std::vector<int64_t> order_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_GRADIENT_MEAN_H_
