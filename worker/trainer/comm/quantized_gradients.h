// Means of gradients in a format of a byte per value, bucket by bucket, with error feedback.
//
// A rank divides its gradients by the number of ranks, adds what its earlier messages have left
// out, and takes part in the sum of all ranks' (quantized_sum.h). What that leaves out is added at
// the next mean, so nothing is lost in the long run. It is kept by parameter: buckets may change.
//
// A mean that is repeated, because the step was undone, begins with what was left out before it.
// Where a row is not finite, neither is its mean, and what was left out before it stays.
//
// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_QUANTIZED_GRADIENTS_H_
#define WORKER_TRAINER_COMM_QUANTIZED_GRADIENTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/row_codec.h"
#include "worker/trainer/config.h"

namespace paceline {

class QuantizedGradients {
 public:
  // `codec` must outlive this. The parameters are on one device.
  QuantizedGradients(RowCodec& codec, RowFormat format, const std::vector<at::Tensor>& parameters);

  // Null for a format of gradients that has no error feedback. `rest`: that of another object for
  // the same parameters, or undefined.
  static std::unique_ptr<QuantizedGradients> Make(RowCodec& codec, WireFormat format,
                                                  const std::vector<at::Tensor>& parameters,
                                                  const at::Tensor& rest);

  // The group of later means; it must outlive its use here. Null: none.
  void SetGroup(Group* group) { group_ = group; }

  // Call before each forward pass: the latest means will not be repeated.
  void BeginPass();

  // Replaces `gradients`, those of `parameters` one after the other as a flat tensor, by their mean
  // over the group. Each parameter is averaged once per step. After a failure later calls fail too,
  // until the next pass.
  void Average(at::Tensor gradients, const std::vector<at::Tensor>& parameters);

  // Call when all gradients of a step are averaged.
  void Finish();

  // What is still to be sent: float [all parameters], in their order; zero at the start. The tensor
  // stays as it is for the mean that comes next.
  at::Tensor rest() const { return is_finished_ ? next_ : rest_; }
  // The same before the means that may still be repeated; undefined without.
  at::Tensor rest_before() const { return is_finished_ ? rest_ : at::Tensor(); }
  void SetRest(const at::Tensor& rest) { rest_.copy_(rest); }

  // Sent by this rank since the latest BeginPass.
  int64_t bytes() const { return bytes_; }

 private:
  RowCodec& codec_;
  const RowFormat format_;
  // Where each parameter's values begin in rest_.
  std::unordered_map<const c10::TensorImpl*, int64_t> first_;
  at::Tensor rest_;
  at::Tensor next_;  // Of the means of this step.
  Group* group_ = nullptr;
  bool is_finished_ = false;  // next_ is whole.
  bool is_broken_ = false;    // A mean of this step failed.
  int64_t bytes_ = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_QUANTIZED_GRADIENTS_H_
