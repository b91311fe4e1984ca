// Who is what in a job: its members, its spares, and those that leave.
//
// A job has JobRequest.ranks seats. Each is held by a member of the present generation, or is empty
// (the job has shrunk). The rank of a member is its index in Job.ranks, which is in the order of
// the seats, so that without empty seats rank and seat are the same. A trainer keeps the
// identity (TrainerReport.id) that it was started with; a spare's has a rank of JobRequest.ranks
// and above.
//
//                 StartSpare             a generation begins          its end is reported
//   a free place ───────────▶ spare ◀──────────────────────▶ member
//                               │                              │
//                               ╰───────────▶ leaving ◀────────╯ ───────────────────────▶ gone
//
// A generation follows another without a new start in one of two ways (proto/plan.proto,
// Membership): unplanned, when members are lost, and planned, when ranks move or the job grows.
// recovery.h decides; here is what that does to the job.
//
// Pointers and references to trainers are valid until the job changes.
#ifndef CONTROLLER_CORE_RECOVERY_MEMBERSHIP_H_
#define CONTROLLER_CORE_RECOVERY_MEMBERSHIP_H_

#include <optional>
#include <string>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

// What a trainer is in the job's newest generation: proto/plan.proto, Membership.
struct Membership {
  Generation generation;
  Rank rank;  // -1: it stands by, or is out.
  int world_size = 0;
  std::string store_address;
  bool planned = false;
  RankBatch batch;
};

// No planned change so soon after another change.
inline constexpr absl::Duration kPlannedPause = absl::Seconds(10);

// Trainers run, or start.
bool HasMembers(const Job& job);

// Whether lost ranks are replaced inside the running job (spec.recovery.max_failures).
bool Recovers(const Job& job);

// Members by rank, then spares, then those that leave. All hold their places.
std::vector<const RankState*> TrainersOf(const Job& job);
// Null: there is none of that identity.
RankState* FindTrainer(Job& job, const TrainerId& id);
bool HasTrainersOn(const Job& job, const NodeName& node);
// Whether it may have any there: it has used the node since its newest start. Quick.
bool UsesNode(const Job& job, const NodeName& node);

// -1: no member.
Rank RankOf(const Job& job, const RankState& trainer);
// Of a seat's holder; null: it is empty.
const RankState* HolderOf(const Job& job, int seat);
std::vector<bool> FilledSeats(const Job& job);

Membership MembershipOf(const Job& job, const RankState& trainer);

// Whether nobody else can have the trainer's place yet: its process may be there.
bool HoldsPlace(const Job& job, const RankState& trainer);

bool HasEnded(const RankState& trainer);
// It ended as it should not have.
bool HasFailed(const RankState& trainer);
// It is out of the generation: failed, or given up.
bool IsLost(const RankState& member);
// It can be made a member, and is not on a node that the job leaves or that does not answer.
bool IsUsable(const Job& job, const RankState& spare);
// Its model and data are loaded.
bool IsReady(const RankState& trainer);
bool HasTrained(const RankState& trainer);
// It has the job's present state, as far as is known: it has trained in the newest generation that
// came about, or in a later one. Who stood by or was out meanwhile has one that is old.
bool HasState(const Job& job, const RankState& trainer);

// Some member has done all its steps: nothing is replaced any more.
bool IsOver(const Job& job);

// The newest generation in which all members have trained.
Generation NewestThatCameAbout(const Job& job);
// The change of membership under way; null: there is none.
const MembershipChange* ChangeUnderWay(const Job& job);
MembershipChange* ChangeUnderWay(Job& job);

// A trainer that stands by begins to start at the place.
void StartSpare(Job& job, Place place, Moment now);

// Trainers that the job wants beside those that it has, to stand by: its spares, and those that
// shall take over the ranks of nodes that it leaves, or empty seats. A place for each is to be
// found, and StartSpare to be called. 0 while it is not the time for it.
int MissingSpares(const Job& job, Moment now);
// Trainers that shall stand by, all told.
int WantedSpares(const Job& job);

// Whether ranks can move to other nodes while the job trains; why not, else.
std::optional<std::string> WhyRanksCannotMove(const Job& job);
// All trainers of the job have to leave the node, as soon as others can take their places between
// two steps; WhyRanksCannotMove is asked again then. Repeating it changes nothing.
JobChange RequestReplacement(Job& job, const NodeName& node, const std::string& why);
// They may stay, as far as they are still there.
JobChange WithdrawReplacement(Job& job, const NodeName& node);

// What the members of the next generation are. The trainers move there from where they are: each is
// a member or spare, or leaves.
struct NextGeneration {
  std::vector<RankState> members;  // In the order of their seats.
  std::vector<RankState> spares;
  std::vector<RankState> leaving;
  bool planned = false;
  std::string reason;
};
void BeginGeneration(Job& job, NextGeneration next, Moment now);

// All members train in the present generation: those that are out may end.
void CompleteChange(Job& job, Moment now);

// Set: the trainer shall end, with so long between SIGTERM and SIGKILL.
std::optional<absl::Duration> StopGrace(const Job& job, const RankState& trainer);

// All trainers of the job on the node are given up, and ended at once: recovery.h replaces them.
JobChange EndTrainersOn(Job& job, const NodeName& node, const std::string& why, Moment now);

// The trainer is out and shall end.
void Release(Job& job, RankState trainer, absl::Duration grace, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_MEMBERSHIP_H_
