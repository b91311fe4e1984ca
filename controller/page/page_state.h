// What the page shows of the cluster as a whole, as JSON; page_job.h has one job in detail.
//
// Each state is complete, so that a page that missed some is up to date with the next. Lists are
// bounded: jobs that hold slots come before jobs that wait, nodes that are not ready before ready
// ones, and the newest jobs and decisions first; the number left out is included. Sums cover
// everything. Users' text (names, reasons) is passed on unchanged: the page shows it as text and
// never as markup.
#ifndef CONTROLLER_PAGE_PAGE_STATE_H_
#define CONTROLLER_PAGE_PAGE_STATE_H_

#include <cstddef>
#include <nlohmann/json_fwd.hpp>

#include "absl/time/time.h"
#include "controller/page/page_job.h"

namespace paceline {

// Most entries shown.
inline constexpr size_t kPageJobs = 100;  // Not ended.
inline constexpr size_t kPageEndedJobs = 20;
inline constexpr size_t kPageNodes = 400;
inline constexpr size_t kPageDecisions = 30;

// Times are seconds since 1970, durations are seconds; unknown values are null.
nlohmann::json DescribeForPage(const PageSources& sources, absl::Time wall_now);

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_STATE_H_
