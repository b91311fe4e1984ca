// Decides who gets which state from whom when the ranks of a job with shards meet (rendezvous.h is
// for jobs without): K ranks hold one copy of the model together, a replica. Rank r has position
// r mod K of replica r / K (common/core/lanes.h).
//
// A rank applies a step, or an exchange of parameters, only when all ranks that share it have said
// that they are prepared for it (comm/step_word.h). So as soon as one has applied it, each of the
// others can do so by itself. The rules, in this order:
//
//   0. Of the ranks that share a step or an exchange, one has applied it: those that are prepared
//      apply what they have (kOwnStep, kOwnMean). None has: they go back to the beginning of it.
//   a. A replica misses positions, and other replicas have them that are equal to it (with ddp; or
//      of the same group of gradients, at the same step): each gets its state from such a one.
//   b. Any other replica that misses a position, or whose ranks have states that do not belong
//      together, counts as one without a state.
//   c. DecideRendezvous decides about the replicas. A transfer between two of them is one between
//      their ranks of each position.
//   d. Some position has no holder: the state is lost.
//
// A rendezvous can be cut off when only some have carried out its decision. The newest decision
// that a rank has carried out counts: a rank that applied a step without being at that rendezvous
// must not contradict those that went back there. A rank that was not at a rendezvous which came
// to its end counts as one without a state. So does one that comes from another position: it has
// that part of the model.
//
// Pure.
#ifndef WORKER_TRAINER_CORE_SHARDED_RENDEZVOUS_H_
#define WORKER_TRAINER_CORE_SHARDED_RENDEZVOUS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/trainer/core/rendezvous.h"

namespace paceline {

// `reported` and `layouts`: by rank, as for DecideRendezvous. `groups`: as there, but of replicas;
// none with ddp. `shards`: ranks of a replica, >= 2. InvalidArgument: the ranks make no whole
// replicas. Internal: the state is lost, or nobody has one; names the position.
absl::StatusOr<RendezvousDecision> DecideShardedRendezvous(
    const std::vector<RankPosition>& reported, const std::vector<uint64_t>& layouts,
    const std::vector<std::vector<int>>& groups, int shards);

}  // namespace paceline

#endif  // WORKER_TRAINER_CORE_SHARDED_RENDEZVOUS_H_
