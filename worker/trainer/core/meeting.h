// Who gets which state from whom when the members of a generation meet, and where each goes on.
//
// Every member tells its position; all of them compute the same decision from the same positions.
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
#ifndef WORKER_TRAINER_CORE_MEETING_H_
#define WORKER_TRAINER_CORE_MEETING_H_

#include <cstdint>
#include <vector>

namespace paceline {

// Consecutive ranks.
struct RankRange {
  int first = 0;
  int size = 0;

  bool Holds(int rank) const { return first <= rank && rank < first + size; }
};

// Where a rank is. Ranks and groups are those of the generation that it trained in last.
struct RankPosition {
  int64_t generation = 0;   // That one; 0: it has never trained.
  int64_t step = -1;        // Steps done; -1: it has no state, and has to get one.
  bool computed = false;    // The gradients of the step after them, but for their mean.
  bool exchanged = true;    // The exchange after the steps done is done, or there was none.
  bool final_mean = false;  // All steps are done, and so is the mean of all ranks after them.
  int rank = -1;
  RankRange gradients;      // Its group in the present step.
  RankRange exchange;       // Of the exchange that is not done.
  uint64_t layout = 0;      // A hash of its rank, the number of ranks, and its plan.
  int64_t evaluated = -1;   // Steps done at its latest evaluation.
  int64_t alone_below = 0;  // As in MeetingDecision.
};

struct Transfer {
  enum class What {
    kAll,   // What the training is.
    kStep,  // Parameters and state of the optimizer.
    kMean,  // The parameters that the latest exchange gave.
  };
  What what = What::kAll;
  int from = 0;
  int to = 0;

  bool operator==(const Transfer& other) const {
    return what == other.what && from == other.from && to == other.to;
  }
};

struct MeetingDecision {
  // Nobody has trained, and all have the same steps behind them: they begin.
  bool begins = false;
  std::vector<Transfer> transfers;      // To be made in this order.
  std::vector<RankPosition> positions;  // Of each rank afterwards; none is `computed`.
  // The groups are those in which all that have trained did so last.
  bool same_groups = true;
  // Rule 5: steps below this are made without exchanges. 0: none.
  int64_t alone_below = 0;
};

// `told`: by rank; one has a state at least. `layouts`: what each rank's is in this generation.
// `groups`: sizes of groups of consecutive ranks, from small to large; all ranks come last anyway.
MeetingDecision DecideMeeting(const std::vector<RankPosition>& told,
                              const std::vector<uint64_t>& layouts,
                              const std::vector<std::vector<int>>& groups);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_MEETING_H_
