// What running jobs have measured lately, for people to look at: each rank's latest steps, and each
// job's last minutes.
//
//   steps of a rank ─────────▶ ╭─────────────╮ ──▶ JobSteps: heat map, ranks
//   the cluster has stepped ─▶ │ StepHistory │ ──▶ JobSeries: sparklines
//                              ╰─────────────╯
//
// Bounded: all tables together have at most `max_rows` rows (800 bytes each), those of a job at
// most `max_job_rows`; a job with more ranks than there are rows for has several consecutive ranks
// in a row, and its cells show the slowest of them. So all tables together cost 13 MB at most, and
// the series of `max_jobs` jobs 13 MB more. A job beyond these is not kept until another is
// forgotten; one that finds no row has no table until its next generation.
//
// Nothing is stored: after a restart the history starts over.
//
// Pure. Thread-compatible. References are valid until the next call of a method that is not const.
#ifndef CONTROLLER_CORE_STEPS_STEP_HISTORY_H_
#define CONTROLLER_CORE_STEPS_STEP_HISTORY_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/cluster/cluster.h"
#include "controller/core/steps/job_series.h"
#include "controller/core/steps/job_steps.h"

namespace paceline {

struct StepHistoryOptions {
  int max_rows = 16384;
  int max_job_rows = 4096;
  size_t max_jobs = 512;
  // What a job has measured is kept for so long after its end.
  absl::Duration keep_ended = absl::Minutes(10);
};

// Of one job.
struct MeasuredJob {
  // Null: no generation has trained yet, or there was no room for its ranks.
  std::unique_ptr<JobSteps> steps;
  JobSeries series;

  // What it follows.
  Generation generation{-1};
  // By the identity of the process: generation that it was started for, and its rank then.
  absl::flat_hash_map<std::pair<Generation, Rank>, int> ranks;
  absl::Time ended = absl::InfiniteFuture();  // Steady.
};

class StepHistory {
 public:
  explicit StepHistory(const StepHistoryOptions& options = {}) : options_(options) {}

  // The cluster has taken an event in, and this came of it.
  void Follow(const Cluster& cluster, const Actions& actions, Moment now);

  // Steps that a trainer has finished, as its node tells, oldest first. Those of a trainer that is
  // no member there now, and those that cannot be true, are dropped.
  void TakeSteps(const Cluster& cluster, const NodeName& node, const TrainerId& trainer,
                 absl::Span<const StepTimes> steps);

  // Null: nothing is known.
  const MeasuredJob* Find(const JobId& job) const;
  // Of all tables.
  int rows() const { return rows_; }

 private:
  // Each batch of steps looks its job up. Has no order: only what does not depend on one may look
  // at all.
  using Jobs = absl::node_hash_map<JobId, MeasuredJob>;

  void FollowJob(const Job& job, Moment now);
  void Begin(const Job& job, MeasuredJob& measured);
  void Forget(Jobs::iterator job);
  void ForgetEnded(Moment now);

  const StepHistoryOptions options_;
  Jobs jobs_;
  int rows_ = 0;
  absl::Time next_end_ = absl::InfiniteFuture();  // Steady; when the next one is to be forgotten.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STEPS_STEP_HISTORY_H_
