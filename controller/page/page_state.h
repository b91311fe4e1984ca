// What the page shows of the cluster as a whole, as JSON; page_job.h has one job in detail.
//
// Complete each time, so that a page that missed some knows all again with the next. Bounded: jobs
// that hold slots before those that wait, nodes that are not ready before those that are, the
// newest of jobs and decisions; with the number of those left out. Sums are over all. Text of users
// (names, reasons) is in it as they wrote it: the page shows it as text and never as markup.
#ifndef CONTROLLER_PAGE_PAGE_STATE_H_
#define CONTROLLER_PAGE_PAGE_STATE_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "absl/time/time.h"
#include "controller/page/page_job.h"

namespace paceline {

// What is shown at most.
inline constexpr size_t kPageJobs = 100;  // That have not ended,
inline constexpr size_t kPageEndedJobs = 20;
inline constexpr size_t kPageNodes = 400;
inline constexpr size_t kPageDecisions = 30;

// Times are seconds since 1970, durations seconds; what is not known is null.
nlohmann::json DescribeForPage(const PageSources& sources, absl::Time wall_now);

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_STATE_H_
