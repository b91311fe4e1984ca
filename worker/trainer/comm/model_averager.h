// Replaces parameters by their mean over a group of ranks.
//
// The parameters are a fixed list. They are copied into one flat buffer, which is kept, divided
// by the number of ranks, summed over them, and copied back in place, so that all who refer to
// their storage still do. Division comes before the sum as in PyTorch's model averagers, whose
// results these are bit for bit where the collective adds in the same order.
//
// A few values may ride along with a mean, so that what else the ranks have to tell each other
// costs no collective of its own.
//
// Thread-compatible. Torch's exceptions pass through; a failed collective is a CollectiveError.
#ifndef WORKER_TRAINER_COMM_MODEL_AVERAGER_H_
#define WORKER_TRAINER_COMM_MODEL_AVERAGER_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/int8_mean.h"

namespace paceline {

// One mean.
struct Mean {
  Group& group;
  std::vector<at::Tensor> state;  // Averaged too; the same shapes on all members.
  at::Tensor riders;              // Flat, may be undefined: replaced by the sum over the members.
  bool measure = false;           // For drift().
  Int8Mean* int8 = nullptr;       // How the parameters travel; null: as they are.
};

class ModelAverager {
 public:
  // What is averaged, all on one device.
  explicit ModelAverager(const std::vector<at::Tensor>& parameters);

  // Returns the bytes that this rank sent.
  int64_t Average(const Mean& mean);

  // The parameters' values now, float [all of them]. Until the next call of a method.
  at::Tensor Flat();

  // What the latest mean gave: parameters, then state, float or wider, as one vector. Undefined
  // before the first one; valid until the next call of Average.
  at::Tensor latest() const;

  // Norm of the change of the parameters by the latest mean that measured it; 0 before. On a
  // GPU that of an earlier one, if the latest is still under way: nothing is waited for.
  double drift() const;

 private:
  std::vector<at::Tensor> Views(size_t count) const;  // The first ones.
  int64_t Reduce(Group& group, const at::Tensor& values, const at::Tensor& riders);
  // Makes buffer_ large enough and views_ fit.
  void Arrange(const std::vector<at::Tensor>& state, int64_t riders);

  const std::vector<at::Tensor> parameters_;  // Detached, with the storage of the originals.
  const at::ScalarType type_;                 // Of the buffer.
  const int64_t values_;                      // Of all parameters.
  at::Tensor buffer_;                         // Parameters, state, riders.
  std::vector<at::Tensor> views_;             // Into buffer_: parameters, then state.
  int64_t latest_ = 0;                        // Values of the latest mean, in buffer_.
  at::Tensor drift_;                          // On the host; undefined before the first one.
};

// What each of n ranks sends of `bytes` in an all-reduce: 2 (n - 1) / n of it.
int64_t AllReduceBytes(int64_t bytes, int ranks);

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_MODEL_AVERAGER_H_
