// Queues in which jobs wait: which one goes first, and how much of the cluster its jobs may hold.
#ifndef CONTROLLER_CORE_SCHEDULE_QUEUE_H_
#define CONTROLLER_CORE_SCHEDULE_QUEUE_H_

#include <map>
#include <optional>
#include <string>

#include "controller/core/job/job.h"

namespace paceline {

inline constexpr char kDefaultQueue[] = "default";

struct Queue {
  int priority = 0;  // Jobs of a greater one go first and may displace others.
  // Slots that its jobs may hold at a time, spares included; unset: no limit.
  std::optional<int> slots = std::nullopt;
  std::optional<int> gpus = std::nullopt;
  // The highest priority that submitters may give their own jobs, which then go before those of
  // others and displace them.
  int submitter_priority = 0;

  std::optional<int> Quota(Device device) const { return device == Device::kCuda ? gpus : slots; }
};

// By name.
using Queues = std::map<std::string, Queue>;

// The queues of a controller that was given none: kDefaultQueue, without a quota.
inline Queues DefaultQueues() { return {{kDefaultQueue, Queue()}}; }

}  // namespace paceline

#endif  // CONTROLLER_CORE_SCHEDULE_QUEUE_H_
