// The table of every metric family of the controller.
//
// The series of a job appear with its first start and disappear once it has been over for
// kEndedJobSeries (metrics.h); a job that waits for its first start is only in paceline_queue_jobs.
// No series has a label for ranks, except for the slowest suspects of each job: what ranks measure
// is exported by their workers.
#ifndef CONTROLLER_METRICS_METRIC_FAMILIES_H_
#define CONTROLLER_METRICS_METRIC_FAMILIES_H_

#include <vector>

#include "common/metrics/metric_family.h"

namespace paceline {

const std::vector<MetricFamily>& ControllerFamilies();

}  // namespace paceline

#endif  // CONTROLLER_METRICS_METRIC_FAMILIES_H_
