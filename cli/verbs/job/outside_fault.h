// What a drill does to a cluster of its own from outside, while a job trains there: it empties a
// node, fills a disk, kills the controller.
//
// Thread-compatible.
#ifndef CLI_VERBS_JOB_OUTSIDE_FAULT_H_
#define CLI_VERBS_JOB_OUTSIDE_FAULT_H_

#include <string>

#include "absl/status/status.h"
#include "cli/drill/core/rehearsal.h"
#include "cli/program.h"
#include "cli/verbs/cluster/own_cluster.h"
#include "proto/job.pb.h"

namespace paceline {

// FailedPrecondition: the folder's file system is so large that no drill may fill it.
absl::Status CheckSmallDisk(const std::string& folder);

class OutsideFault {
 public:
  // `small_disk`: a folder, for kFullDisk. `program` and `cluster` outlive this.
  OutsideFault(Program& program, OwnCluster& cluster, DrillFault fault, std::string small_disk);
  // Undoes what is left of it: the node takes ranks again, the disk has room.
  ~OutsideFault();
  OutsideFault(const OutsideFault&) = delete;
  OutsideFault& operator=(const OutsideFault&) = delete;

  // `job`: trains. Of the controller: returns when it is back, or an error.
  absl::Status Act(const v1::Job& job);

  // Whether the job has had it. Requires: Act has succeeded.
  bool IsOver(const v1::Job& job) const;

 private:
  absl::Status Drain(const std::string& node);

  Program& program_;
  OwnCluster& cluster_;
  const DrillFault fault_;
  const std::string small_disk_;
  std::string drained_;  // The node; empty: none.
  int ballast_ = -1;     // The file that fills the disk, without a name; -1: there is none.
};

}  // namespace paceline

#endif  // CLI_VERBS_JOB_OUTSIDE_FAULT_H_
