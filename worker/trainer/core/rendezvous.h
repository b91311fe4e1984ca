// Decides who gets which state from whom when a generation's members meet, and where each goes on.
//
// Each member reports its position; all compute the same decision from the same positions.
//
// A step has two halves: the update of the parameters, after which it is done and is never repeated
// or lost, and the exchange of parameters that may follow it. Both may have been cut off on some
// ranks and finished on others. The rules, in this order:
//
//   1. A rank that had computed the gradients of a step when their mean was cut off, while another
//      member of its group of gradients got the mean and did the step: it takes parameters and
//      optimizer state of that one, whose update its own gradients are part of, and has done the
//      step too. Buffers, random numbers and data are its own.
//   2. Any other rank that was within a step goes back to its beginning, and repeats it.
//   3. A rank whose exchange of parameters was cut off, while another member of its group got
//      through it: it takes the mean that the other one's latest exchange gave, which is that of
//      this exchange unless the other one has gone through a further one since. If none did, the
//      exchange is repeated, with the state of newcomers in the place of what is lost.
//   4. A rank without the state of the training gets all of it from the most advanced member of the
//      smallest of its groups that has some, and goes on from where that one is. Where all members
//      are alike the sources are spread. A rank that was left behind counts as one without: it
//      stood by, or had left, and members of its group have trained on in a later generation.
//   5. If the groups are not those of before (other ranks, another plan), nobody can make up for
//      what only some have exchanged: each rank goes on by itself, without exchanges and with the
//      samples that it would have had, up to the step that the most advanced one has done; from
//      there on all train by the new groups. An exchange that was cut off is left out.
//
// With ddp all ranks are one group of gradients: after the rules 1 and 4 they are at the same step.
// With hsgd ranks of other groups may be several steps ahead; each goes on from its own position.
//
// Pure.
#ifndef WORKER_TRAINER_CORE_RENDEZVOUS_H_
#define WORKER_TRAINER_CORE_RENDEZVOUS_H_

#include <cstdint>
#include <vector>

namespace paceline {

// A range of consecutive ranks.
struct RankRange {
  int first = 0;
  int size = 0;

  bool Holds(int rank) const { return first <= rank && rank < first + size; }
};

// Where a rank is. Ranks and groups are those of the generation in which it trained last.
struct RankPosition {
  int64_t generation = 0;   // 0: it has never trained.
  int64_t step = -1;        // Steps done; -1: it has no state and must get one.
  bool computed = false;    // It has the next step's gradients, but not their mean.
  bool exchanged = true;    // The exchange after the steps done is finished, or there was none.
  bool final_mean = false;  // All steps and the final mean of all ranks are done.
  int rank = -1;            // Before it has trained: the one that it was loaded for.
  RankRange gradients;      // Its group in the current step.
  RankRange exchange;       // Ranks of the unfinished exchange.
  uint64_t layout = 0;      // Hash of its rank, the number of ranks, and its plan.
  int64_t evaluated = -1;   // Steps done at the latest evaluation.
  int64_t alone_below = 0;  // See RendezvousDecision.

  // Of a job with shards (sharded_rendezvous.h). Its ranges hold all ranks of their replicas, and
  // `exchange` of a rank that is `prepared` is that of the exchange after the next step.
  bool prepared = false;  // It has the mean gradients of the next step, and has not applied them.
  bool mean_prepared = false;  // It has the result of the next exchange, and has not applied it.
  bool left_out = false;       // It is `exchanged` by rule 5 alone.
  int64_t means = 0;           // Means of all ranks that it has applied beside those exchanges.
  // The newest generation whose decision it has carried out, and its rank in that one. Without a
  // state: the newest that it knows of from before it gave its state up; 0: nobody had trained.
  int64_t decided = 0;
  int decided_rank = -1;
  RankRange peers;  // Ranks whose state is as its own whenever they are at its step.
  // Where it trained before `generation`, and the steps it had done then.
  int64_t previous = 0;
  int previous_rank = -1;
  int64_t previous_step = -1;

  // The training goes on in this generation. A previous one without a step does not count.
  void Enter(int64_t its_generation) {
    if (step > previous_step) {
      previous = generation;
      previous_rank = rank;
      previous_step = step;
    }
    generation = its_generation;
  }
};

struct Transfer {
  enum class What {
    kAll,   // The whole state of the training.
    kStep,  // Parameters and optimizer state.
    kMean,  // The parameters from the latest exchange.
    // With shards; nothing travels. `from` has applied the same, and knows the norm of the
    // gradients.
    kOwnStep,  // `to` applies the gradients that it is prepared with.
    kOwnMean,  // `to` applies the mean that it is prepared with.
  };
  What what = What::kAll;
  int from = 0;
  int to = 0;

  bool operator==(const Transfer& other) const {
    return what == other.what && from == other.from && to == other.to;
  }
};

struct RendezvousDecision {
  // Nobody has trained, and all are at the same step: the training begins.
  bool begins = false;
  std::vector<Transfer> transfers;      // Make them in this order.
  std::vector<RankPosition> positions;  // By rank, after the transfers; none is within a step.
  // All ranks that have trained did so last in these same groups.
  bool same_groups = true;
  // Rule 5: ranks make steps below this one without exchanges. 0: none.
  int64_t alone_below = 0;
};

// `reported`: positions by rank, at least one with a state. `layouts`: those in this generation.
// `groups`: sizes of groups of consecutive ranks, small to large; that of all ranks is always last.
RendezvousDecision DecideRendezvous(const std::vector<RankPosition>& reported,
                                    const std::vector<uint64_t>& layouts,
                                    const std::vector<std::vector<int>>& groups);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_RENDEZVOUS_H_
