// A step of schedule.h: the slots that are kept for a job that does not fit now, and the jobs that
// must make room for it.
#ifndef CONTROLLER_CORE_SCHEDULE_RESERVE_H_
#define CONTROLLER_CORE_SCHEDULE_RESERVE_H_

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "controller/core/schedule/schedule.h"
#include "controller/core/schedule/slot_table.h"

namespace paceline {

struct ReservationWish {
  const JobRequest* job = nullptr;
  std::pair<int, int> priority;
  const NodeSet& nodes;  // The open nodes that it may use.
  SlotTable* table = nullptr;
  const std::vector<int>& coming;  // By node: slots of jobs that are about to leave.
  const std::vector<HeldSlots>& held;
  const Reservation* present = nullptr;  // Null: none.
  bool may_displace = false;
};

struct ReservationPlan {
  std::vector<NodeShare> kept;  // As many slots as the job has ranks.
  std::vector<size_t> victims;  // Jobs to be displaced: indices in `held`.
};

// Nothing: the nodes could not hold the job even if they were empty.
std::optional<ReservationPlan> PlanReservation(const ReservationWish& wish);

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_RESERVE_H_
