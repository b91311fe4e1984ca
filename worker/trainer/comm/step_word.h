// The message of all ranks that share a step, before any of them applies it: "my gradients are
// whole". With it they find the norm of the gradients of the whole model, of which each rank of a
// replica has a part.
//
// Who returns from Give knows that all members have given their word. So if one member of a step
// has applied it, all others can do so by themselves, whatever breaks off afterwards
// (core/sharded_rendezvous.h).
//
// Thread-compatible.
#ifndef WORKER_TRAINER_COMM_STEP_WORD_H_
#define WORKER_TRAINER_COMM_STEP_WORD_H_

#include "common/core/lanes.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/config.h"

namespace paceline {

class StepWord {
 public:
  // `group`: all ranks of some replicas, including this member's; it exchanges host tensors. It
  // must outlive this.
  StepWord(Group& group, const Member& member)
      : group_(group), rank_(member.rank), lanes_(member.lanes()) {}

  // `squares`: the sum of the squares of this rank's gradients, which are equal on all ranks of its
  // position. Returns the norm of the whole model's, with the same bits on all members; it is not
  // finite if some rank's are not. Throws CollectiveError: some members may have got the word of
  // all, nevertheless.
  double Give(double squares);

 private:
  Group& group_;
  const int rank_;
  const Lanes lanes_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_STEP_WORD_H_
