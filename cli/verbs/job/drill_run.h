// One run of a drill's job: submitted, disturbed, followed to its end.
#ifndef CLI_VERBS_JOB_DRILL_RUN_H_
#define CLI_VERBS_JOB_DRILL_RUN_H_

#include <string>

#include "absl/time/time.h"
#include "cli/drill/core/rehearsal.h"
#include "cli/drill/core/run_record.h"
#include "cli/program.h"
#include "cli/verbs/cluster/own_cluster.h"
#include "grpcpp/support/status.h"
#include "proto/job_spec.pb.h"

namespace paceline {

struct DrillRunOptions {
  DrillFault fault = DrillFault::kNone;
  absl::Duration limit;           // After it the job is cancelled.
  absl::Duration pace;            // As in the spec's chaos; zero: none.
  std::string until_file = {};    // The same: made when no step need be longer any more.
  std::string small_disk = {};    // Of kFullDisk.
  std::string code = {};          // Of Ship (ship.h).
  OwnCluster* cluster = nullptr;  // Null: nothing is done from outside.
};

// Fills `record`. Not OK: the job was not accepted, or the controller could not be asked. CANCELLED
// when interrupted; the job is cancelled then.
grpc::Status RunDrillJob(Program& program, const v1::JobSpec& spec, const DrillRunOptions& options,
                         RunRecord* record);

}  // namespace paceline

#endif  // CLI_VERBS_JOB_DRILL_RUN_H_
