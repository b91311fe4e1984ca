// The code of the jobs that have ranks on this node (JobSpec.code). It is fetched once per job from
// the controller through the session and unpacked, as the jobs' user, into a folder of the job. All
// the job's ranks on this node start in that folder.
//
//   Want ──▶ FETCHING ──▶ UNPACKING ──▶ READY        a part at a time, one job at a time
//               │             │
//               ╰─────────────┴───────▶ FAILED       the next generation tries again
//
// A folder under its final name is complete. Folders of an earlier daemon are removed unless ranks
// still run in them.
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
  // `settled` is called when Look no longer returns Unavailable for a job. `threads` must outlive
  // this object.
  JobCodes(NodePaths paths, JobUser user, SideThreads& threads,
           std::function<void(const JobId&)> settled);
  JobCodes(const JobCodes&) = delete;
  JobCodes& operator=(const JobCodes&) = delete;

  // Call first: sets aside the code folders of all jobs but those in `running`.
  void Start(const std::set<JobId>& running, absl::Time now);

  // Makes sure that the job's code is fetched, for a rank of `generation`.
  void Want(const JobId& job, Generation generation, const v1::Code& code, absl::Time now);
  // OK: it is in paths.CodeDir(job). Unavailable: not yet. Other errors: why there is none.
  absl::Status Look(const JobId& job) const;

  // The next request to the controller, if any.
  std::optional<v1::CodeRequest> NextRequest();
  void OnData(const v1::CodeData& data);
  // The session was lost, and so was the outstanding request.
  void OnLost() { asked_.reset(); }

  // Sets aside the folders that CodeUse releases. True if there were any.
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
  std::optional<JobId> asked_;  // The job with a request outstanding.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_JOB_CODES_H_
