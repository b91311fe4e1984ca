// The roles in a job: its members, its spares, and those that leave.
//
// A job has JobRequest.ranks seats, its ranks' positions; an elastic one (elastic.h) as many as it
// has filled so far. Each is held by a member of the present generation, or is empty (the job has
// shrunk). A member's rank is its index in Job.ranks, which is
// sorted by seat; without empty seats rank and seat are the same. A trainer keeps the identity
// (TrainerReport.id) with which it was started; in that of a spare the rank is at least
// the most ranks that the job may have.
//
// If the model is sharded, the seats of each replica (common/core/lanes.h) are all held, or all
// empty; so a member's rank and its seat are of the same position. Which part of the model a
// trainer has depends on the position in which it trained last.
//
//                 StartSpare             a generation begins          its end is reported
//   a free slot ───────────▶ spare ◀──────────────────────▶ member
//                               │                              │
//                               ╰───────────▶ leaving ◀────────╯ ───────────────────────▶ gone
//
// A generation follows another without a new start in one of two ways (proto/plan.proto,
// Membership): unplanned, when members are lost, or planned, when ranks move or the job grows.
// recovery.h decides that; this file carries it out.
//
// Pointers and references to trainers are valid until the job changes.
#ifndef CONTROLLER_CORE_RECOVERY_MEMBERSHIP_H_
#define CONTROLLER_CORE_RECOVERY_MEMBERSHIP_H_

#include <optional>
#include <string>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

// A member's part in the job's copies: proto/plan.proto, MemberCopies.
struct MemberCopies {
  int seat = 0;
  int buddy = -1;
  int ward = -1;
  int64_t complete_step = 0;
  Generation complete_generation{0};
  int64_t settled_step = 0;
  bool restore = false;
};

// A trainer's role in the job's newest generation: proto/plan.proto, Membership.
struct Membership {
  Generation generation;
  Rank rank;  // -1: it stands by, or is out.
  int world_size = 0;
  std::string store_address;
  bool planned = false;
  RankBatch batch;
  int shards = 1;  // Ranks of a replica: rank r is position r mod shards of replica r / shards.
  // For the two sides of a hand-over: the rank whose state the one that leaves it gives to the
  // other one; -1: there is none.
  Rank hand_over{-1};
  bool averages_first = false;              // leavers_mean.h
  std::optional<MemberCopies> copies = {};  // Of a member of a job that has them.
  // Until all members of a changed generation train: steps done at the newest complete checkpoint.
  std::optional<int64_t> saved_step = {};
};

// How long after a change of membership no planned change is made.
inline constexpr absl::Duration kPlannedPause = absl::Seconds(10);

// Whether trainers run or start.
bool HasMembers(const Job& job);

// Whether lost ranks are replaced inside the running job (spec.recovery.max_failures).
bool Recovers(const Job& job);

// Members by rank, then spares, then those that leave. All of them hold their slots.
std::vector<const RankState*> TrainersOf(const Job& job);
// Null: no trainer has that identity.
RankState* FindTrainer(Job& job, const TrainerId& id);
bool HasTrainersOn(const Job& job, const NodeName& node);
// Whether the job may have trainers there, as it has used the node since its newest start. Quick.
bool UsesNode(const Job& job, const NodeName& node);

// -1: the trainer is no member.
Rank RankOf(const Job& job, const RankState& trainer);
// The holder of a seat; null: it is empty.
const RankState* HolderOf(const Job& job, int seat);
std::vector<bool> FilledSeats(const Job& job);
// Whether the job has as many ranks as it wants, and no seat is empty.
bool IsWhole(const Job& job);
// "all ranks train", and, of an elastic job, how many more or fewer these are than it wants.
std::string TrainingText(const Job& job);

// Of a sharded model's trainer: keeps in mind that it has the seat from the present generation on;
// -1: none.
void NoteSeat(const Job& job, RankState& trainer, int seat);
// The seat that it had in a generation, at the earliest in the one in which it trained last; -1: it
// had none, or the model is not sharded.
int SeatIn(const RankState& trainer, Generation generation);
// The seat in which it trained last; -1: it has not trained, or the model is not sharded.
int StateSeat(const RankState& trainer);

Membership MembershipOf(const Job& job, const RankState& trainer);

// Whether nobody else can have the trainer's slot yet, as its process may still be there.
bool HoldsSlot(const Job& job, const RankState& trainer);

bool HasEnded(const RankState& trainer);
// Whether it ended as it should not have.
bool HasFailed(const RankState& trainer);
// Whether it failed in the step that a spare rehearses before it is ready (docs/session.md).
bool FailedInRehearsal(const RankState& trainer);
// Whether it is out of the generation: failed, or given up.
bool IsLost(const RankState& member);
// Whether it can become a member: it has not ended, and its node answers and is not to be left.
bool IsUsable(const Job& job, const RankState& spare);
// Whether its model and data are loaded.
bool IsReady(const RankState& trainer);
bool HasTrained(const RankState& trainer);
// Whether it is known to have the job's present state: it has trained in the newest generation that
// came about, or a later one. Whoever stood by or was out meanwhile has an old state.
bool HasState(const Job& job, const RankState& trainer);

// Whether a member has done all its steps, so that nothing is replaced any more.
bool IsOver(const Job& job);

// The newest generation in which all members have trained.
Generation NewestThatCameAbout(const Job& job);
// The change of membership under way; null: there is none.
const MembershipChange* ChangeUnderWay(const Job& job);
MembershipChange* ChangeUnderWay(Job& job);

// Begins to start, at the slot, a trainer that is to stand by.
void StartSpare(Job& job, Slot slot, Moment now);

// Whether it is the time to start trainers that stand by.
bool MayStartSpares(const Job& job, Moment now);
// How many more trainers are to stand by: spares, and those that will take over the ranks of nodes
// that the job leaves, or empty seats. The caller finds a slot for each and calls StartSpare. 0
// while it is not the time for it.
int MissingSpares(const Job& job, Moment now);
// How many trainers are to stand by in all.
int WantedSpares(const Job& job);

// Why ranks cannot move to other nodes while the job trains; nothing: they can. A rank hands its
// state over if nobody else has it.
std::optional<std::string> WhyRanksCannotMove(const Job& job);
// Makes all trainers of the job leave the node as soon as others can take their places between two
// steps; WhyRanksCannotMove is asked again then. Repeating it changes nothing.
JobChange RequestReplacement(Job& job, const NodeName& node, const std::string& why);
// The trainers may stay, as far as they are still there.
JobChange WithdrawReplacement(Job& job, const NodeName& node);

// How long after a change of membership no replica is mended: a node that has just come back is the
// likeliest to be lost again, which costs more than some slow steps. And how often it is looked
// whether one can be.
inline constexpr absl::Duration kMendingPause = absl::Minutes(1);
inline constexpr absl::Duration kMendingInterval = absl::Seconds(10);

// Begins the membership of a job that was just placed.
void BeginMembership(Job& job);

// The members of the next generation, and the others. All trainers of the job are moved into it:
// each is a member or a spare, or leaves.
struct NextGeneration {
  std::vector<RankState> members;  // In the order of their seats.
  std::vector<RankState> spares;
  std::vector<RankState> leaving;
  bool planned = false;
  bool restores = false;  // All members go back to the copies (copies.h).
  std::string reason;
};
void BeginGeneration(Job& job, NextGeneration next, Moment now);

// All members train in the present generation: lets those end that are out.
void CompleteChange(Job& job, Moment now);

// If set, the trainer is to end, with this long between SIGTERM and SIGKILL.
std::optional<absl::Duration> StopGrace(const Job& job, const RankState& trainer);

// Gives up and ends all trainers of the job on the node, at once; recovery.h replaces them.
JobChange EndTrainersOn(Job& job, const NodeName& node, const std::string& why, Moment now);

// Takes the trainer out; it is to end.
void Release(Job& job, RankState trainer, absl::Duration grace, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_MEMBERSHIP_H_
