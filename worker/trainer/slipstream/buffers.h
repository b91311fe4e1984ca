// The buffers of a rank with Slipstream, and passes over them (slipstream/copies.h).
//
// x is the model's own tensors: parameters, then floating-point buffers that are not frozen. All
// other buffers are flat, with x's elements in the same order: z; three that take turns as pub,
// sent and ref; wire; and rest where sums are lossy. They are float32 and allocated once on the
// model's device.
//
// Each pass is one call. On a CPU it is cut into chunks of fixed size for the caller's intra-op
// pool, so the result does not depend on the number of threads. On another device it is a series of
// torch operators on the calling thread's stream, which may not have begun when the call returns
// (worker/trainer/slipstream/pass_order.h).
//
// Two threads may make passes at the same time if neither writes a buffer that the other uses
// (slipstream/rank.h orders them so). Torch's exceptions pass through.
#ifndef WORKER_TRAINER_SLIPSTREAM_BUFFERS_H_
#define WORKER_TRAINER_SLIPSTREAM_BUFFERS_H_

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/status.h"
#include "slipstream/rank.h"
#include "worker/trainer/model/model_tensors.h"

namespace paceline {

// InvalidArgument, naming the tensor, unless parameters and running statistics are float32 and
// dense.
absl::Status CheckSlipstream(const ModelTensors& model);

class SlipstreamBuffers {
 public:
  // Refers to the model's tensors, which must keep their storage. Throws c10::ValueError unless all
  // are float32 and dense. The buffers' contents are undefined, except that z is x.
  explicit SlipstreamBuffers(const ModelTensors& model);
  // `loops`: in chunks, as on a CPU; otherwise as on another device, which also works on a CPU.
  SlipstreamBuffers(const ModelTensors& model, bool loops);

  // Makes the ordered copy. `names` says which buffers are pub, sent and ref.
  void Copy(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names);

  // Blocks until the calling thread's stream has done its work so far.
  using WaitForStream = std::function<void()>;

  // Fills wire with the update. Returns its square, which is not finite if one value is not.
  double FillUpdate(const SlipstreamRank::Buffers& names, const WaitForStream& wait);
  void FillZeros();
  // Fills wire with the gradients that were taken and the current running statistics. Requires:
  // TakeGradients.
  void FillGradient();

  // Applies the sum in wire: z + wire / ranks.
  void ApplyUpdates(int ranks);
  // The same for a lossy sum and this rank's rest. `has_update`: whether this rank has sent one.
  void ApplyLossyUpdates(int ranks, bool has_update, const SlipstreamRank::Buffers& names);
  // Leaves the mean of `ranks` gradients in wire, clipped to the norm `max_norm` unless that is 0.
  // Sets the running statistics of z to their mean.
  void ApplyGradients(int ranks, double max_norm);

  // Flips a bit of one value of z (chaos).
  void FlipBit();

  // XXH3 of z.
  uint64_t Hash() const;

  // The square of the gradients' norm, not finite if one value is not. Requires: every parameter
  // has a gradient.
  double SquaredGradient(const WaitForStream& wait) const;
  // Moves the gradients out of the parameters, where the owner of the model may change them. Kept
  // until DropGradients. Requires: every parameter has a gradient.
  void TakeGradients();
  // Those of the parameters, and those taken.
  void DropGradients();

  // All of x, with the model's shapes.
  const std::vector<at::Tensor>& x() const { return x_; }
  // Flat, [values].
  const at::Tensor& z() const { return z_; }
  const at::Tensor& wire() const { return wire_; }
  // The part of this rank's update that the sum in wire lacks. Allocated at the first call, by the
  // thread that sums.
  const at::Tensor& rest();
  // Views of z with the parameters' shapes.
  const std::vector<at::Tensor>& z_parameters() const { return z_parameters_; }
  const std::vector<at::Tensor>& wire_parameters() const { return wire_parameters_; }

 private:
  // A range of elements of one tensor of x; `flat` is its begin in the flat buffers.
  struct Chunk {
    float* x = nullptr;
    int64_t flat = 0;
    size_t count = 0;
  };
  int64_t Parameters() const { return static_cast<int64_t>(parameters_.size()); }
  void ApplyGradientsOnDevice(int ranks, double max_norm);
  std::vector<at::Tensor> Views(const at::Tensor& flat) const;
  // Calls pass(i) for each chunk.
  template <typename F>
  void ForChunks(F pass) const;
  float* Data(int buffer) const { return buffers_[static_cast<size_t>(buffer)].data_ptr<float>(); }
  void CopyOnDevice(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names);

  const bool loops_;
  const std::vector<at::Tensor> parameters_;  // With their gradients,
  std::vector<at::Tensor> gradients_;         // until these are taken.
  std::vector<at::Tensor> x_;                 // Detached.
  int64_t values_ = 0;
  int64_t parameter_values_ = 0;
  at::Tensor z_;
  std::array<at::Tensor, 3> buffers_;
  at::Tensor wire_;
  at::Tensor rest_;
  std::vector<Chunk> chunks_;  // For loops.
  // Views of the buffers with the shapes of x; for operators.
  std::vector<at::Tensor> z_views_;
  std::array<std::vector<at::Tensor>, 3> buffer_views_;
  std::vector<at::Tensor> z_parameters_;
  std::vector<at::Tensor> wire_parameters_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_BUFFERS_H_
