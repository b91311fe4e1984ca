// Decides which waiting jobs start now, which running ones make room for them, and what keeps the
// others waiting: one pass over all jobs and nodes.
//
// Jobs are taken by their queue's priority, their own, and their order of submission. A job starts
// when all its ranks have a slot and its queue's quota allows them. If it cannot start, others
// pass it (backfill) on these conditions:
//   - Its queue's quota is counted as if it held its slots, so that jobs behind it in the queue
//     cannot keep it from them.
//   - If it could run without all other jobs, slots are reserved for it: those that become free by
//     themselves, if they suffice; else enough for its ranks, on the nodes with the most free ones.
//     Nobody behind it gets a slot on such a node unless more are free there than are reserved.
//     So what it lacks only shrinks, and it starts when the jobs there have ended, or earlier if
//     other slots become free. A reservation does not change unless another one lacks less, or one
//     of its nodes takes no ranks any more.
//   - A job whose possible nodes include some of a reservation ahead of it gets none itself.
// A job that has a reservation may displace running jobs of a lower priority (of queue, then job):
// the lowest first, then the last started, and no more than needed. Only jobs that save checkpoints
// are displaced; they save, stop and wait again. A displaced job cannot displace the job that took
// its slot.
//
// An elastic job (recovery/elastic.h) starts with as many ranks as there is room for; what is
// reserved for it, and who makes room, goes by the fewest. Before a job waits, or others are
// displaced, running jobs give back ranks beyond those that they asked for, if that lets it start
// (extra_ranks.h); so they do for running jobs that lack ranks, or slots to which ranks can move.
//
// The result depends only on the input.
#ifndef CONTROLLER_CORE_SCHEDULE_SCHEDULE_H_
#define CONTROLLER_CORE_SCHEDULE_SCHEDULE_H_

#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/job/job.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/schedule/node_index.h"
#include "controller/core/schedule/packing.h"
#include "controller/core/schedule/placement.h"
#include "controller/core/schedule/queue.h"

namespace paceline {

struct WaitingJob {
  const Job* job = nullptr;
  std::string settles;       // Why it cannot start yet; empty: it can.
  bool keeps_slots = false;  // While it cannot start, its slots are kept as if it did.
};

// The slots that a job holds, by node.
struct HeldSlots {
  const Job* job = nullptr;
  std::vector<NodeShare> shares;      // Nodes by their index in ScheduleInput.spaces.
  std::pair<int, int> priority = {};  // PriorityOf; set by the pass.
  bool leaves = false;                // It is about to leave; set by the pass.
};

// Slots that are kept for a waiting job.
struct Reservation {
  JobId job;
  std::map<NodeName, int> kept;  // Free now or later.
};

struct ScheduleInput {
  const Queues* queues = nullptr;
  std::array<std::vector<NodeSpace>, 2> spaces;  // By Device; the same nodes, by name.
  const NodeIndex* index = nullptr;              // The index of these nodes.
  std::vector<WaitingJob> waiting;
  std::vector<HeldSlots> holding;         // Jobs that hold slots.
  std::vector<Reservation> reservations;  // From the last pass.
};

struct Wait {
  enum class Kind {
    kQueueUnknown,
    kQuota,
    kSettlement,
    kReservation,  // It has a reservation.
    kBehind,       // It waits behind the job `behind`, which has a reservation.
    kSlots,        // Its nodes could not hold it even if they were empty.
  };
  Kind kind = Kind::kSlots;
  std::string reason;  // One line.
  std::optional<JobId> behind = std::nullopt;
};

struct ScheduleDecision {
  struct Start {
    JobId job;
    Placement placement;
  };
  struct Preemption {
    JobId victim;
    JobId beneficiary;
  };
  // A job goes down to so many ranks, since somebody waits for the other slots: "job 5 (digits)".
  struct GiveBack {
    int ranks = 0;
    std::string beneficiary;
  };
  std::vector<Start> starts;
  std::vector<Preemption> preemptions;
  std::map<JobId, GiveBack> give_backs;
  std::map<JobId, Wait> waits;
  std::vector<Reservation> reservations;
};

ScheduleDecision DecideSchedule(ScheduleInput input);

// {priority of the queue, of the job}. A job may displace those of a lesser one.
std::pair<int, int> PriorityOf(const JobRequest& job, const Queues& queues);

// Whether it saves checkpoints, has not failed to in this generation, and is not about to stop.
bool CanBeDisplaced(const Job& job);

// Whether the job is giving its slots back: it is stopping, or will when it is saved.
bool IsOnItsWayOut(const Job& job);

// Calls `visit(slot)` for each slot that the job holds.
template <typename Visit>
void ForEachSlot(const Job& job, Visit visit) {
  if (!job.holds_slots()) return;
  for (const auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (const RankState& trainer : *part) {
      if (HoldsSlot(job, trainer)) visit(trainer.slot);
    }
  }
}

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_SCHEDULE_H_
