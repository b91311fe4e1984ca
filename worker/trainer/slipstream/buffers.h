// The buffers of a rank with Slipstream, and the passes over them (slipstream/copies.h).
//
// x is the model's own tensors: parameters, then floating-point buffers that are not frozen. All
// others are flat, with the elements of x in the same order: z, the three that take turns as pub,
// sent and ref, wire, and rest where sums are lossy. They are float32, made once, on the model's
// device.
//
// A pass is one call. On a CPU it is cut into chunks of a fixed size, which the caller's intra-op
// pool works on: the result does not depend on the number of threads. On another device it is
// torch's operators, given to the calling thread's stream: when the call returns it need not have
// begun (slipstream/pass_order.h).
//
// Two threads may make passes at the same time if no buffer that one writes is used by the other
// one (slipstream/rank.h orders them so). Torch's exceptions pass through.
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
#include "worker/trainer/model/model.h"

namespace paceline {

// InvalidArgument, with the tensor's name, unless parameters and running statistics are float32 and
// dense.
absl::Status CheckSlipstream(const Model& model);

class SlipstreamBuffers {
 public:
  // Refers to the tensors of the model, which keep their storage. Throws c10::ValueError unless
  // all are float32 and dense. What the buffers hold is not defined yet, but for z: it is x.
  explicit SlipstreamBuffers(const Model& model);
  // `loops`: in chunks, as on a CPU; else as on another device, which a CPU can do, too.
  SlipstreamBuffers(const Model& model, bool loops);

  // As ordered. `names`: which buffers are pub, sent and ref.
  void Copy(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names);

  // Blocks until the calling thread's stream has done what it has been given.
  using WaitForStream = std::function<void()>;

  // Fill wire. The result: the square of what is sent, not finite if one value is not.
  double FillUpdate(const SlipstreamRank::Buffers& names, const WaitForStream& wait);
  void FillZeros();
  // With the parameters' gradients, and the running statistics as they are.
  void FillGradient();

  // Of the sum in wire: z + wire / ranks.
  void ApplyUpdates(int ranks);
  // The same of a lossy sum, with this rank's rest; `has_update`: the rank has sent one.
  void ApplyLossyUpdates(int ranks, bool has_update, const SlipstreamRank::Buffers& names);
  // The mean of `ranks` gradients is left in wire, clipped to the norm `max_norm` unless that is 0;
  // running statistics of z become the mean.
  void ApplyGradients(int ranks, double max_norm);

  // Of one value of z (chaos).
  void FlipBit();

  // XXH3 of z.
  uint64_t Hash() const;

  // What is left of the gradients' norm, squared; not finite if one is not. Requires: every
  // parameter has a gradient.
  double SquaredGradient(const WaitForStream& wait) const;
  void DropGradients();

  // All of x, as the model has it.
  const std::vector<at::Tensor>& x() const { return x_; }
  // Flat, [values].
  const at::Tensor& z() const { return z_; }
  const at::Tensor& wire() const { return wire_; }
  // What the sum in wire does not have of this rank's update. Made when it is first asked for, by
  // the thread that sums.
  const at::Tensor& rest();
  // Views with the shapes of the parameters.
  const std::vector<at::Tensor>& z_parameters() const { return z_parameters_; }
  const std::vector<at::Tensor>& wire_parameters() const { return wire_parameters_; }

 private:
  // A range of elements of one tensor of x; `flat` is where it begins in the flat buffers.
  struct Chunk {
    float* x = nullptr;
    int64_t flat = 0;
    size_t count = 0;
  };
  int64_t Parameters() const { return static_cast<int64_t>(parameters_.size()); }
  void ApplyGradientsOnDevice(int ranks, double max_norm);
  std::vector<at::Tensor> Views(const at::Tensor& flat) const;
  // Calls pass(i) for each of the chunks.
  template <typename F>
  void ForChunks(F pass) const;
  float* Data(int buffer) const { return buffers_[static_cast<size_t>(buffer)].data_ptr<float>(); }
  void CopyOnDevice(ComputeOrder::Copy copy, const SlipstreamRank::Buffers& names);

  const bool loops_;
  const std::vector<at::Tensor> parameters_;  // With their gradients.
  std::vector<at::Tensor> x_;                 // Detached.
  int64_t values_ = 0;
  int64_t parameter_values_ = 0;
  at::Tensor z_;
  std::array<at::Tensor, 3> buffers_;
  at::Tensor wire_;
  at::Tensor rest_;
  std::vector<Chunk> chunks_;  // For loops.
  // With the shapes of x; of the buffers, for operators.
  std::vector<at::Tensor> z_views_;
  std::array<std::vector<at::Tensor>, 3> buffer_views_;
  std::vector<at::Tensor> z_parameters_;
  std::vector<at::Tensor> wire_parameters_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_SLIPSTREAM_BUFFERS_H_
