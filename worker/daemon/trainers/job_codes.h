// The code of the jobs that have ranks on this node (JobSpec.code): fetched from the controller
// through the session, once for each job, and unpacked as the jobs' user into a folder of the
// job's, in which all its ranks on this node start.
//
//   Want ──▶ FETCHING ──▶ UNPACKING ──▶ READY        a part at a time, one job at a time
//               │             │
//               ╰─────────────┴───────▶ FAILED       the next generation tries again
//
// A folder that has its name is whole. What an earlier daemon left is removed unless ranks run in
// it.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_TRAINERS_JOB_CODES_H_
#define WORKER_DAEMON_TRAINERS_JOB_CODES_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "proto/worker.pb.h"
#include "worker/daemon/core/code_use.h"
#include "worker/daemon/side_threads.h"
#include "worker/daemon/state/job_user.h"
#include "worker/daemon/state/node_paths.h"

namespace paceline {

class JobCodes {
 public:
  // `settled` is called when Look says something else than that it has to wait. `threads` outlives
  // this object.
  JobCodes(NodePaths paths, JobUser user, SideThreads& threads,
           std::function<void(const JobId&)> settled);
  JobCodes(const JobCodes&) = delete;
  JobCodes& operator=(const JobCodes&) = delete;

  // Before all else: sets folders of other jobs than the `running` aside.
  void Start(const std::set<JobId>& running, absl::Time now);

  // For a rank of that generation.
  void Want(const JobId& job, Generation generation, const v1::Code& code, absl::Time now);
  // OK: it is in paths.CodeDir(job). Unavailable: not yet. Else: why it cannot be had.
  absl::Status Look(const JobId& job) const;

  // What to ask the controller for now.
  std::optional<v1::CodeRequest> NextRequest();
  void OnData(const v1::CodeData& data);
  // The session was lost, and what was asked for with it.
  void OnLost() { asked_.reset(); }

  // Sets aside the folders that CodeUse does not keep; whether there were any.
  bool RemoveUnused(const std::set<JobId>& needed, absl::Time now);

 private:
  struct Held {
    v1::Code code;
    Generation generation;
    enum class State { kFetching, kUnpacking, kReady, kFailed } state = State::kFetching;
    std::string bytes = {};
    absl::Status failure = {};
  };

  void Unpack(const JobId& job, Held& held);
  void Settle(const JobId& job, const absl::Status& status);
  void SetAside(const std::string& dir) const;

  // Constant.
  const NodePaths paths_;
  const JobUser user_;
  SideThreads& threads_;
  const std::function<void(const JobId&)> settled_;

  // Owned by the loop.
  std::map<JobId, Held> held_;
  CodeUse use_;
  std::optional<JobId> asked_;  // Whose part is under way.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_JOB_CODES_H_
