// Every metric family of the worker daemon: its table.
//
// Labels `job_id`, `generation` and `rank` are those of trainers on the node now, as in their
// newest membership (spares train nothing and have no series). What a trainer does not know (the
// MFU on an unknown device, the device's memory on a CPU, saves of a job without a checkpoint
// directory, rounds of a job of another strategy than slipstream) has no series. The node is a
// label of the target (the controller's /sd), not of the series.
#ifndef WORKER_DAEMON_METRICS_METRIC_FAMILIES_H_
#define WORKER_DAEMON_METRICS_METRIC_FAMILIES_H_

#include <vector>

#include "common/metrics/metric_family.h"

namespace paceline {

const std::vector<MetricFamily>& WorkerFamilies();

}  // namespace paceline

#endif  // WORKER_DAEMON_METRICS_METRIC_FAMILIES_H_
