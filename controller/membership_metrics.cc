#include "controller/membership_metrics.h"

#include <algorithm>

namespace paceline {
namespace {

const prometheus::Histogram::BucketBoundaries kBuckets = {0.05, 0.1, 0.2, 0.5, 1,  2,
                                                          5,    10,  30,  60,  300};

const char* CauseOf(const MembershipChange& change) {
  return change.planned ? "planned" : "failure";
}

}  // namespace

MembershipMetrics::MembershipMetrics(prometheus::Registry* registry)
    : changes_(prometheus::BuildCounter()
                   .Name("paceline_job_membership_changes_total")
                   .Help("Generations that followed another while the job trained, by cause.")
                   .Register(*registry)),
      durations_(prometheus::BuildHistogram()
                     .Name("paceline_job_recovery_duration_seconds")
                     .Help("From the decision on a generation until all its members trained.")
                     .Register(*registry)) {
  for (const char* cause : {"failure", "planned"}) {
    changes_.Add({{"cause", cause}});
    durations_.Add({{"cause", cause}}, kBuckets);
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
      durations_.Add({{"cause", CauseOf(change)}}, kBuckets)
          .Observe(absl::ToDoubleSeconds(change.ended - since));
    }
    since = absl::InfiniteFuture();
  }
}

}  // namespace paceline
