// Starts a cluster on this machine, for `paceline dev up` and `paceline run`.
#ifndef CLI_VERBS_CLUSTER_DEV_START_H_
#define CLI_VERBS_CLUSTER_DEV_START_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/dev/dev_cluster.h"
#include "cli/dev/dev_dir.h"
#include "cli/program.h"

namespace paceline {

// Starts what is not running of the cluster in `dir` and waits until its workers report. Returns
// the names of the daemons started. Errors as in DevCluster::Start; DeadlineExceeded if a worker
// does not report in time.
absl::StatusOr<std::vector<std::string>> StartDevCluster(Program& program, DevCluster& cluster,
                                                         const DevDir& dir,
                                                         const DevSettings& settings,
                                                         const std::string& bin_dir);

}  // namespace paceline

#endif  // CLI_VERBS_CLUSTER_DEV_START_H_
