// The curves of a job's whole run with the marks of what happened, as JSON for the page.
//
// They are copied on the loop, and put into JSON on another thread, since that takes longer.
#ifndef CONTROLLER_PAGE_PAGE_CURVES_H_
#define CONTROLLER_PAGE_PAGE_CURVES_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/core/ids.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/history/job_histories.h"
#include "controller/core/steps/run_curves.h"

namespace paceline {

struct JobRun {
  std::string id;
  std::string name;
  bool known = false;  // The job exists; else nothing below is set.
  bool ended = false;
  std::optional<JobCurves> curves;  // Nothing: none are kept.
  // What happened while it trained, oldest first: at most the 300 events of its history.
  std::vector<JobLifeEvent> marks;
};

// On the loop.
JobRun CopyRun(const JobId& id, const Cluster& cluster, const RunCurves& curves,
               const JobHistories& histories);

// Times are seconds since 1970. Of each curve, by point: steps, and the least, mean and greatest
// value; null where no value was finite.
nlohmann::json DescribeRunForPage(const JobRun& run);

}  // namespace paceline

#endif  // CONTROLLER_PAGE_PAGE_CURVES_H_
