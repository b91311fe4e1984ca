// A training step that the device repeats by itself.
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

  // Does one training step. The first few calls run `step` as it is (libraries settle
  // meanwhile), a later one records it, and all after that repeat the record without calling
  // `step`. Hence `step`
  //   - reads what changes from tensors that live as long as this: the batch and the learning
  //     rate are copied into them before the call;
  //   - leaves its results (loss, norm of the gradients) in such tensors, by copy;
  //   - does not wait for the device, nor read a value from it;
  //   - begins and ends with no gradient defined;
  //   - is the same for every call.
  // A step that cannot be recorded throws, and this is unusable then.
  virtual void Run(const std::function<void()>& step) = 0;

  // Whether Run only repeats from now on.
  virtual bool recorded() const = 0;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STEP_GRAPH_H_
