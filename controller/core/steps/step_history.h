// What running jobs have measured, for people: each rank's latest steps, each job's last minutes,
// and the curves of its whole run.
//
//   steps of a rank ─────────▶ ╭─────────────╮ ──▶ JobSteps: heat map, ranks
//   the cluster has stepped ─▶ │ StepHistory │ ──▶ JobSeries: sparklines
//                              ╰─────────────╯ ──▶ RunCurves
//
// It is bounded. All tables together have at most `max_rows` rows (800 bytes each), those of one
// job at most `max_job_rows`. If a job has more ranks than there are rows for, a row stands for
// several consecutive ranks, and its cells show the slowest of them. So the tables cost at most 13
// MB, and the series of `max_jobs` jobs 13 MB more. A job beyond these is not kept until another is
// forgotten; one for which no row is left has no table until its next generation. Tables and series
// are forgotten some time after the job's end; curves have bounds of their own (run_curves.h).
//
// Nothing is stored: after a restart the history starts over.
//
// Pure. Thread-compatible. References are valid until the next call of a non-const method.
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
#include "controller/core/steps/run_curves.h"

namespace paceline {

struct StepHistoryOptions {
  int max_rows = 16384;
  int max_job_rows = 4096;
  size_t max_jobs = 512;
  // How long after its end a job's measurements are kept.
  absl::Duration keep_ended = absl::Minutes(10);
  RunCurvesOptions curves = {};
};

// The measurements of one job.
struct MeasuredJob {
  // Null: no generation has trained yet, or there was no room for its ranks.
  std::unique_ptr<JobSteps> steps;
  JobSeries series;

  // The generation that it follows.
  Generation generation{-1};
  // The rank by process, which is known by the generation and the rank that it was started for.
  absl::flat_hash_map<std::pair<Generation, Rank>, int> ranks;
  absl::Time ended = absl::InfiniteFuture();  // Steady.
};

class StepHistory {
 public:
  // `read` may be empty: then there are no curves of what ranks report.
  explicit StepHistory(const StepHistoryOptions& options = {}, ReadNumbers read = {})
      : options_(options), read_(std::move(read)), curves_(options.curves) {}

  // The cluster has taken in an event, with these actions.
  void Follow(const Cluster& cluster, const Actions& actions, Moment now);

  // Takes in steps that a trainer has finished, as its node reports them, oldest first. Drops those
  // of a trainer that is no member there now, and those that cannot be true.
  void TakeSteps(const Cluster& cluster, const NodeName& node, const TrainerId& trainer,
                 absl::Span<const StepTimes> steps);

  // Null: nothing is known.
  const MeasuredJob* Find(const JobId& job) const;
  const RunCurves& curves() const { return curves_; }
  // Rows of all tables.
  int rows() const { return rows_; }

 private:
  // Each batch of steps looks its job up here. It has no order, so only what does not depend on the
  // order may iterate.
  using Jobs = absl::node_hash_map<JobId, MeasuredJob>;

  void FollowJob(const Job& job, Moment now);
  // Adds the figures of a period that has just ended to the job's curves.
  void FollowRun(const Job& job, const SeriesPoint& period, Moment now);
  void Begin(const Job& job, MeasuredJob& measured);
  void Forget(Jobs::iterator job);
  void ForgetEnded(Moment now);

  const StepHistoryOptions options_;
  const ReadNumbers read_;
  Jobs jobs_;
  RunCurves curves_;
  int rows_ = 0;
  absl::Time next_end_ = absl::InfiniteFuture();  // Steady; when the next job is to be forgotten.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STEPS_STEP_HISTORY_H_
