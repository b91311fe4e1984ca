#include "cli/drill/core/rehearsal.h"

#include <algorithm>
#include <iterator>

namespace paceline {
namespace {

struct Named {
  DrillFault fault;
  const char* name;
};

constexpr Named kFaults[] = {
    {DrillFault::kNone, "repeat"},
    {DrillFault::kKill, "kill"},
    {DrillFault::kStop, "stop"},
    {DrillFault::kSlow, "slow"},
    {DrillFault::kDrain, "drain"},
    {DrillFault::kFullDisk, "full-disk"},
    {DrillFault::kController, "controller"},
};

// Why the fault cannot be rehearsed there; empty: it can.
std::string Obstacle(DrillFault fault, const DrillSetting& setting) {
  if (ComesFromOutside(fault) && !setting.own_cluster) {
    return "others would have it too; without --on-cluster, --server and --context the drill has a "
           "cluster of its own";
  }
  switch (fault) {
    case DrillFault::kStop:
      return setting.ranks > 1
                 ? ""
                 : "nobody waits for the only rank, so nobody notices; give --ranks 2";
    case DrillFault::kDrain:
      return setting.replaces ? ""
                              : "only jobs with recovery.max_failures move ranks while they train";
    case DrillFault::kFullDisk:
      return setting.has_small_disk ? ""
                                    : "give --full-disk DIR, a folder on a small file system, such "
                                      "as one of `mount -t "
                                      "tmpfs -o size=64m tmpfs DIR`";
    case DrillFault::kNone:
    case DrillFault::kKill:
    case DrillFault::kSlow:
    case DrillFault::kController:
      break;
  }
  return "";
}

}  // namespace

std::string FaultName(DrillFault fault) {
  return std::find_if(std::begin(kFaults), std::end(kFaults),
                      [&](const Named& one) { return one.fault == fault; })
      ->name;
}

std::optional<DrillFault> FaultOfName(absl::string_view name) {
  for (const Named& one : kFaults) {
    if (one.name == name) return one.fault;
  }
  return std::nullopt;
}

bool ComesFromOutside(DrillFault fault) {
  return fault == DrillFault::kDrain || fault == DrillFault::kFullDisk ||
         fault == DrillFault::kController;
}

std::vector<Rehearsal> PlanRehearsals(const DrillSetting& setting) {
  std::vector<Rehearsal> plan;
  for (const Named& one : kFaults) {
    const bool wanted = one.fault == DrillFault::kNone || setting.wanted.empty() ||
                        std::count(setting.wanted.begin(), setting.wanted.end(), one.fault) > 0;
    plan.push_back({one.fault, wanted ? Obstacle(one.fault, setting) : "not asked for (--only)"});
  }
  return plan;
}

int64_t StepOfFault(int64_t steps) { return steps / 3; }

int RankOfFault(int ranks) { return ranks - 1; }

absl::Duration PaceOf(DrillFault fault, int64_t steps, const RunTimes& reference) {
  const bool loses_rank = fault == DrillFault::kKill || fault == DrillFault::kStop;
  if (!loses_rank && !ComesFromOutside(fault)) return absl::ZeroDuration();
  // A rank that moves starts a process first, which takes about as long as the job's start.
  const absl::Duration needed = 2 * reference.until_first + absl::Seconds(10);
  return needed / static_cast<double>(PacedUntil(fault, steps) - kFirstPacedStep);
}

int64_t PacedUntil(DrillFault fault, int64_t steps) {
  return ComesFromOutside(fault) ? steps : StepOfFault(steps);
}

absl::Duration LimitOf(DrillFault fault, int64_t steps, const RunRecord& reference,
                       const DrillTimeouts& timeouts) {
  absl::Duration limit = 3 * reference.took + absl::Minutes(1) + timeouts.collective;
  if (fault == DrillFault::kStop) limit += timeouts.hang;
  return limit + static_cast<double>(PacedUntil(fault, steps) - kFirstPacedStep) *
                     PaceOf(fault, steps, TimesOf(reference));
}

}  // namespace paceline
