// Every metric family of the controller: its table.
//
// Series of a job appear with its first start and disappear when it has ended for kEndedJobSeries
// (metrics.h); one waiting for that first start is only in paceline_queue_jobs. No series of the
// controller has a label for ranks, but for the slowest suspects of each job: what each rank
// measures, its worker tells.
#ifndef CONTROLLER_METRICS_METRIC_FAMILIES_H_
#define CONTROLLER_METRICS_METRIC_FAMILIES_H_

#include <vector>

#include "common/metrics/metric_family.h"

namespace paceline {

const std::vector<MetricFamily>& ControllerFamilies();

}  // namespace paceline

#endif  // CONTROLLER_METRICS_METRIC_FAMILIES_H_
