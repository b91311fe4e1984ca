// Profiles of a running job, for which the chosen ranks trace the same few steps.
//
// The first of these steps is so far ahead that the request reaches every rank before it: no rank
// waits for another, and none is asked for a step that is done. If the request comes too late all
// the same, the rank says so in its result.
#ifndef CONTROLLER_CORE_JOB_PROFILE_H_
#define CONTROLLER_CORE_JOB_PROFILE_H_

#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/job/job.h"
#include "controller/core/requests/refusal.h"

namespace paceline {

inline constexpr int kDefaultProfileSteps = 3;
inline constexpr int kMaxProfileSteps = 100;
// How far ahead of the furthest rank a profile begins: the steps of this time, at least this many.
inline constexpr absl::Duration kProfileLead = absl::Seconds(2);
inline constexpr int64_t kMinProfileLeadSteps = 5;

struct ProfileOrder {
  int steps = 0;           // 0: kDefaultProfileSteps.
  std::vector<int> ranks;  // Empty: all.
  bool memory = false;
};

// Turns the order into `profile`. Fails with JOB_NOT_RUNNING, PROFILE_PENDING, TOO_FEW_STEPS_LEFT,
// or PROFILE_INVALID for what the job can never do.
std::optional<Refusal> MakeProfile(const Job& job, const ProfileOrder& order, absl::Time wall_now,
                                   JobProfile* profile);

// Whether the rank was asked for the job's newest profile.
bool IsProfiled(const Job& job, Rank rank);

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_PROFILE_H_
