// One job as the page shows it, as JSON: a line of the list, or all its detail. Bounded: only the
// newest events and points, and the slowest ranks. Otherwise see page_state.h.
#ifndef CONTROLLER_PAGE_PAGE_JOB_H_
#define CONTROLLER_PAGE_PAGE_JOB_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/job_histories.h"
#include "controller/core/job/job.h"
#include "controller/core/node/node.h"
#include "controller/core/steps/step_history.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {

// Rounds to four digits, which is what the page shows.
double Short(double value);

// Null if the value is not known: not positive, or the infinite past. Times are seconds since 1970.
nlohmann::json Known(double value);
nlohmann::json Known(absl::Time time);

// "host pause" for CAUSE_HOST_PAUSE with the prefix CAUSE_.
std::string Words(absl::string_view name, absl::string_view prefix = "");

std::string NameOfState(JobState state);
std::string NameOfState(NodeState state);

// Most entries shown of a job.
inline constexpr size_t kPageEvents = 30;
inline constexpr int kPageRows = 128;       // Rows of its heat map.
inline constexpr int kPageRanks = 16;       // Its slowest ranks.
inline constexpr size_t kPagePoints = 180;  // Points of its series.
inline constexpr size_t kPageLabels = 6;    // Labels of its line in the list.
inline constexpr size_t kPageKin = 8;  // Jobs that it was made from, and that were made from it.

struct PageSources {
  const Cluster& cluster;
  const Stragglers& stragglers;
  const StepHistory& steps;
  const JobHistories& histories;
};

// How many ranks are shown for a job: those that it asked for, or, of an elastic one, those that it
// has.
int ShownRanks(const Job& job);

// The job's line in the list.
nlohmann::json DescribeJobLine(const Job& job, const PageSources& sources, absl::Time wall_now);

// Details of any job, listed or not; {"id": ..., "known": false} if the job is not known.
nlohmann::json DescribeJobForPage(const PageSources& sources, const JobId& job,
                                  absl::Time wall_now);

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_JOB_H_
