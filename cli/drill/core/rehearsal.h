// Which faults a drill rehearses, in which order, when, and for how long it waits.
//
// Pure.
#ifndef CLI_DRILL_CORE_REHEARSAL_H_
#define CLI_DRILL_CORE_REHEARSAL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/drill/core/run_record.h"
#include "cli/drill/core/timeouts.h"

namespace paceline {

// Each has a run of its own, in this order.
enum class DrillFault {
  kNone,        // "repeat": an undisturbed run once more.
  kKill,        // "kill": SIGKILL of a rank.
  kStop,        // "stop": SIGSTOP of a rank.
  kSlow,        // "slow": a rank computes kSlowFactor times as long, for some steps.
  kDrain,       // "drain": the node of a rank is emptied.
  kFullDisk,    // "full-disk": checkpoints find no room.
  kController,  // "controller": the controller is killed, and comes back.
};

inline constexpr int64_t kLeastDrillSteps = 12;
inline constexpr double kSlowFactor = 4;
inline constexpr int64_t kSlowSteps = 3;
inline constexpr int64_t kFirstPacedStep = 2;

std::string FaultName(DrillFault fault);
std::optional<DrillFault> FaultOfName(absl::string_view name);

struct DrillSetting {
  int ranks = 1;
  bool own_cluster = true;
  bool replaces = false;           // recovery.max_failures is above 0.
  bool has_small_disk = false;     // --full-disk.
  std::vector<DrillFault> wanted;  // Besides kNone; none: all.
};

struct Rehearsal {
  DrillFault fault = DrillFault::kNone;
  std::string left_out;  // Why, and what would have it rehearsed; empty: it is rehearsed.
};

std::vector<Rehearsal> PlanRehearsals(const DrillSetting& setting);

// Before which step of so many, from 0, a fault happens. Requires: at least kLeastDrillSteps.
int64_t StepOfFault(int64_t steps);

// The rank that it happens to: not rank 0, whose log is read, unless there is no other.
int RankOfFault(int ranks);

// Whether the drill itself does it, to a cluster of its own; else the trainer does it to itself.
bool ComesFromOutside(DrillFault fault);

// How much longer each step takes from the third on, though the job's own steps may be short: until
// what is done from outside is done; and so that a rank is lost, or stops, only when the controller
// knows that all train. Else a loss is one of the start, after which all begin anew. Zero: neither
// matters.
absl::Duration PaceOf(DrillFault fault, int64_t steps, const RunTimes& reference);

// The first step, from 0, that is not made longer any more.
int64_t PacedUntil(DrillFault fault, int64_t steps);

// After which a run is cancelled, and counts as one that has not recovered.
absl::Duration LimitOf(DrillFault fault, int64_t steps, const RunRecord& reference,
                       const DrillTimeouts& timeouts);

}  // namespace paceline

#endif  // CLI_DRILL_CORE_REHEARSAL_H_
