// Counts the floating-point operations of a step as torch's dispatcher sees it: those of matrix
// products, convolutions and attention, by their shapes and number formats.
//
// The formulas are those of torch.utils.flop_counter (PyTorch 2.11), with differences that
// docs/flops.md explains: attention on CPUs and products that add in place count, too; a backward
// pass of attention does not count the scores that it computes again; weight gradients of grouped
// convolutions count once.
//
// Thread-compatible. Torch's exceptions pass through.
#ifndef WORKER_TRAINER_MODEL_FLOP_COUNTER_H_
#define WORKER_TRAINER_MODEL_FLOP_COUNTER_H_

#include <memory>
#include <string>

#include "worker/trainer/core/model_flops.h"

namespace paceline {

// Counts from its construction to its destruction what the constructing thread runs, and the
// threads of backward passes that it starts. One at a time in a process: a second one counts
// nothing.
class FlopCounter {
 public:
  FlopCounter();
  ~FlopCounter();
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  // A forward pass begins: all counts.
  void BeginForward();
  // A backward pass begins. What it runs with gradients enabled is a part of the forward pass that
  // it computes again, and does not count.
  void BeginBackward();

  // So far.
  Flops flops() const;
  // An operator that does much, and of which it is not known how much; empty: there was none.
  std::string unknown() const;

 private:
  struct Tally;

  const std::unique_ptr<Tally> tally_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_MODEL_FLOP_COUNTER_H_
