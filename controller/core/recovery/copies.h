// The copies that the ranks of a job keep of their states in host memory, each its own and that of
// another rank, its ward: which are complete, who has them, and when all ranks go back to them.
//
//   after the generation's first step and each copy_every_steps-th, each member copies its state,
//   and sends the copy to its buddy ──▶ it reports the step ──▶ all members have: the copies of
//   this step are complete, and stand for those before, which are dropped then
//
// So from the first complete copies on, some are complete on both sides at any moment. They belong
// to seats, and stay with the trainers that have them. When the state of a group is lost
// (state_groups.h), the next generation goes back to them: each member takes the copy of its seat,
// from whoever has it. Until all of its members train, each later generation goes back to the same.
//
// Trainers of an earlier release know no copies. A generation with one of them makes none, and
// keeps those that are complete.
#ifndef CONTROLLER_CORE_RECOVERY_COPIES_H_
#define CONTROLLER_CORE_RECOVERY_COPIES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/recovery/membership.h"

namespace paceline {

// Whether the job's ranks keep copies.
bool HasCopies(const Job& job);

// What the member has reported of the present generation's copies.
const CopyStatus& CopiesReported(const Job& job, const RankState& member);

// Whether the present generation makes no copies, although the job has them: trainers of members
// are of an earlier release. Those that are not ready yet count as able.
bool LeavesCopiesOut(const Job& job);
// Whose they are, and what to do. Empty: it makes copies.
std::string WhyNoCopies(const Job& job);

// By rank: the rank that also keeps its copies. Each is the buddy of one other; -1: there is no
// other. `nodes`: of the ranks. As many as possible have theirs on another node.
std::vector<int> BuddiesOf(const std::vector<NodeName>& nodes);

// A generation with these members begins. `restores`: all go back to the copies.
void BeginCopies(Job& job, bool restores);
// Sets what is not stored.
void RestoreBuddies(Job& job);

// Nothing: it has no part in copies.
std::optional<MemberCopies> CopiesOf(const Job& job, const RankState& trainer);

// While all go back to the copies: gives up members whose trainers cannot, and their nodes.
JobChange GiveUpWhoCannotGoBack(Job& job);

// Looks whether all members have reported their copies of a step.
JobChange TakeCopies(Job& job, Moment now);

// All members have gone back to the copies: writes into the change what that has cost.
void CompleteRestore(Job& job, MembershipChange& change);

// Whether the next generation has to go back to the copies.
bool GoesBack(const Job& job);
// "goes back to the copies of step 1200; "
std::string GoesBackText(const Job& job);

// Which copy none of the members of a generation has, for the seats of all of them; empty: they
// have all.
std::string WhyCopiesAreMissing(const Job& job, const std::vector<RankState>& members);

// Why the job cannot go on without its lost members: their state is lost, and there are no copies
// of it. Empty: it can.
std::string WhyItCannotGoOn(const Job& job);

// The checkpoint with which a restart loses less than the copies. Null: it loses more, or almost as
// much, or the job may not restart.
const Checkpoint* CheckpointThatLosesLess(const Job& job);

// Whether all ranks could go back to the newest complete copies: those of all seats are left.
bool IsProtected(const Job& job);

// What is protected by the copies, for people; without "since when".
std::string DescribeProtection(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_COPIES_H_
