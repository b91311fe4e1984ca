// A training step that the device can repeat by itself.
//
// Launching a step's kernels one by one costs the CPU time that small models do not hide.
// Where every step launches the same kernels on the same addresses, they are recorded once and
// then launched as one.
#ifndef WORKER_TRAINER_COMM_STEP_GRAPH_H_
#define WORKER_TRAINER_COMM_STEP_GRAPH_H_

#include <functional>

namespace paceline {

// Thread-compatible. Torch's exceptions pass through.
class StepGraph {
 public:
  virtual ~StepGraph() = default;

  // Does one training step. The first calls run `step` directly, while libraries initialise; a
  // later call records it; after that, calls replay the record without calling `step`. Therefore
  // `step`
  //   - reads changing inputs (batch, learning rate) from tensors that live as long as this; they
  //     are copied there before the call;
  //   - copies its results (loss, norm of the gradients) into such tensors;
  //   - does not wait for the device, nor read a value from it;
  //   - begins and ends with no gradient defined;
  //   - is the same in every call.
  // A step that cannot be recorded throws; this object is then unusable.
  virtual void Run(const std::function<void()>& step) = 0;

  // Whether Run only replays from now on.
  virtual bool recorded() const = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STEP_GRAPH_H_
