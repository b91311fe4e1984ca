// What the page shows, as JSON: the cluster as a whole, and one job in detail.
//
// Complete each time, so that a page that missed some knows all again with the next. Bounded: jobs
// that hold slots before those that wait, nodes that are not ready before those that are, the
// newest of jobs, decisions and events; with the number of those left out. Sums are over all. Text
// of users (names, reasons) is in it as they wrote it: the page shows it as text and never as
// markup.
#ifndef CONTROLLER_PAGE_PAGE_STATE_H_
#define CONTROLLER_PAGE_PAGE_STATE_H_

#include <nlohmann/json.hpp>

#include "absl/time/time.h"
#include "common/core/ids.h"
#include "controller/core/cluster.h"
#include "controller/core/history/job_histories.h"
#include "controller/core/steps/step_history.h"
#include "controller/core/stragglers/job/stragglers.h"

namespace paceline {

// What is shown at most.
inline constexpr size_t kPageJobs = 100;  // That have not ended,
inline constexpr size_t kPageEndedJobs = 20;
inline constexpr size_t kPageNodes = 400;
inline constexpr size_t kPageDecisions = 30;
inline constexpr size_t kPageEvents = 30;   // Of a job.
inline constexpr int kPageRows = 128;       // Of a heat map.
inline constexpr int kPageRanks = 16;       // The slowest of a job.
inline constexpr size_t kPagePoints = 180;  // Of a job's series.

struct PageSources {
  const Cluster& cluster;
  const Stragglers& stragglers;
  const StepHistory& steps;
  const JobHistories& histories;
};

// Times are seconds since 1970, durations seconds; what is not known is null.
nlohmann::json DescribeForPage(const PageSources& sources, absl::Time wall_now);

// Of any job, shown among the others or not; {"id": ..., "known": false} of one that is not known.
nlohmann::json DescribeJobForPage(const PageSources& sources, const JobId& job,
                                  absl::Time wall_now);

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_STATE_H_
