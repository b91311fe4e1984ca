// How a cluster on this machine comes up, for `paceline dev up` and `paceline run`.
#ifndef CLI_VERBS_CLUSTER_DEV_START_H_
#define CLI_VERBS_CLUSTER_DEV_START_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/dev/dev_cluster.h"
#include "cli/dev/dev_dir.h"
#include "cli/program.h"

namespace paceline {

// Starts what does not run of the cluster in `dir` and waits until its workers report. Errors as
// DevCluster::Start; DeadlineExceeded when one does not report in time. Returns the names of those
// that were started.
absl::StatusOr<std::vector<std::string>> StartDevCluster(Program& program, DevCluster& cluster,
                                                         const DevDir& dir,
                                                         const DevSettings& settings,
                                                         const std::string& bin_dir);

}  // namespace paceline

#endif  // CLI_VERBS_CLUSTER_DEV_START_H_
