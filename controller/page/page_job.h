// One job as the page shows it, as JSON: a line of the list, or all of its detail. Bounded: the
// newest events and points, the slowest ranks. As page_state.h otherwise.
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

// Values as the page shows them. Four digits are as many as it does.
double Short(double value);

// Null of what is not known: no positive value, or the infinite past. Times are seconds since 1970.
nlohmann::json Known(double value);
nlohmann::json Known(absl::Time time);

// "host pause" of CAUSE_HOST_PAUSE without the prefix CAUSE_.
std::string Words(absl::string_view name, absl::string_view prefix = "");

std::string NameOfState(JobState state);
std::string NameOfState(NodeState state);

// What is shown of a job at most.
inline constexpr size_t kPageEvents = 30;
inline constexpr int kPageRows = 128;       // Of its heat map.
inline constexpr int kPageRanks = 16;       // The slowest.
inline constexpr size_t kPagePoints = 180;  // Of its series.

struct PageSources {
  const Cluster& cluster;
  const Stragglers& stragglers;
  const StepHistory& steps;
  const JobHistories& histories;
};

// Of the list of jobs.
nlohmann::json DescribeJobLine(const Job& job, const PageSources& sources, absl::Time wall_now);

// Of any job, shown among the others or not; {"id": ..., "known": false} of one that is not known.
nlohmann::json DescribeJobForPage(const PageSources& sources, const JobId& job,
                                  absl::Time wall_now);

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_JOB_H_
