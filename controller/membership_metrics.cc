#include "controller/membership_metrics.h"

#include <algorithm>

namespace paceline {
namespace {

const char* CauseOf(const MembershipChange& change) {
  return change.planned ? "planned" : "failure";
}

}  // namespace

MembershipMetrics::MembershipMetrics(MetricRegistry& registry)
    : changes_(registry.NewCounters("paceline_job_membership_changes_total")),
      durations_(registry.NewHistograms("paceline_job_recovery_duration_seconds")) {
  for (const char* cause : {"failure", "planned"}) {
    changes_.Add({{"cause", cause}});
    durations_.Add({{"cause", cause}});
  }
}

void MembershipMetrics::Begin(const Job& job) {
  Counted& counted = counted_[job.request.id];
  for (const MembershipChange& change : job.recovery.history) {
    counted.begun = change.generation;
    if (change.ended != absl::InfinitePast()) counted.done = change.generation;
  }
}

void MembershipMetrics::Count(const Job& job) {
  if (job.recovery.history.empty()) return;
  Counted& counted = counted_[job.request.id];
  // One that another followed before it was done lasts until that one is.
  absl::Time since = absl::InfiniteFuture();
  for (const MembershipChange& change : job.recovery.history) {
    since = std::min(since, change.begun);
    if (counted.begun < change.generation) {
      counted.begun = change.generation;
      changes_.Add({{"cause", CauseOf(change)}}).Increment();
    }
    if (change.ended == absl::InfinitePast()) continue;
    if (counted.done < change.generation) {
      counted.done = change.generation;
      durations_.Add({{"cause", CauseOf(change)}})
          .Observe(absl::ToDoubleSeconds(change.ended - since));
    }
    since = absl::InfiniteFuture();
  }
}

}  // namespace paceline
