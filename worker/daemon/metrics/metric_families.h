// The table of the worker daemon's metric families.
//
// The labels `job_id`, `generation` and `rank` are those of the newest memberships of the trainers
// on the node now. Spares do not train and have no series. Neither has a figure that a trainer does
// not know: MFU on an unknown device, device memory on a CPU, saves of a job without a checkpoint
// directory, rounds of a job without slipstream. The node is a label of the target (the
// controller's /sd), not of the series.
#ifndef WORKER_DAEMON_METRICS_METRIC_FAMILIES_H_
#define WORKER_DAEMON_METRICS_METRIC_FAMILIES_H_

#include <vector>

#include "common/metrics/metric_family.h"

namespace paceline {

const std::vector<MetricFamily>& WorkerFamilies();

}  // namespace paceline

#endif  // WORKER_DAEMON_METRICS_METRIC_FAMILIES_H_
