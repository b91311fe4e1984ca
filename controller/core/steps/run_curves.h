// The curves of jobs' whole runs: loss, evaluation, learning rate, throughput, and each number that
// a script reports, over the steps that the job has completed.
//
//   a period of a job's series ends ──▶ ╭───────────╮
//   numbers of its ranks ─────────────▶ │ RunCurves │ ──▶ Curve, by job and name
//   its end ──────────────────────────▶ ╰───────────╯
//
// It is bounded: at most `max_curves` curves (curve.h: 10 KiB each, 40 MiB in all), of one job at
// most those of Paceline and `max_reported` of its script (440 KiB). The curves of a job that has
// ended stay until it is deleted, or until there is no room for a curve of another job: then those
// of the job that ended first go. A number for which there is no room has no curve, and the job
// says so.
//
// Nothing is stored: after a restart, or a takeover, curves begin anew.
//
// Pure. Thread-compatible. Pointers are valid until the next call of a non-const method.
#ifndef CONTROLLER_CORE_STEPS_RUN_CURVES_H_
#define CONTROLLER_CORE_STEPS_RUN_CURVES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/time/time.h"
#include "common/core/ids.h"
#include "common/core/moment.h"
#include "controller/core/job/job.h"
#include "controller/core/steps/curve.h"

namespace paceline {

struct CurveName {
  bool reported = false;  // By the job's script; otherwise it is one of Paceline's own.
  std::string name;

  friend bool operator<(const CurveName& a, const CurveName& b) {
    return std::tie(a.reported, a.name) < std::tie(b.reported, b.name);
  }
};

struct CurveValue {
  CurveName name;
  int64_t step = 0;  // Steps completed, with the one that it is of.
  double value = 0;
};

// Reads the learning rate, the gradient norm and the numbers of the script out of the reports of
// the job's ranks, which core does not parse.
using ReadNumbers = std::function<std::vector<CurveValue>(const Job& job)>;

// Names of Paceline's own curves.
namespace curve_name {
inline constexpr char kLoss[] = "loss";
inline constexpr char kEvaluationLoss[] = "evaluation_loss";
inline constexpr char kEvaluationAccuracy[] = "evaluation_accuracy";
inline constexpr char kLearningRate[] = "learning_rate";
inline constexpr char kGradNorm[] = "grad_norm";
inline constexpr char kSamplesPerS[] = "samples_per_s";
inline constexpr char kTokensPerS[] = "tokens_per_s";
inline constexpr char kStepS[] = "step_s";
inline constexpr char kWaitShare[] = "wait_share";
inline constexpr char kMfu[] = "mfu";
}  // namespace curve_name

struct RunCurvesOptions {
  size_t max_curves = 4096;
  size_t max_reported = 32;  // Of one job.
};

struct JobCurves {
  // When this controller began to follow the job (wall), and the steps completed then.
  absl::Time since;
  int64_t since_step = 0;
  std::map<CurveName, Curve> curves;
  size_t reported = 0;                        // How many of these the script reports.
  bool left_out = false;                      // There was no room for some numbers.
  absl::Time ended = absl::InfiniteFuture();  // Steady.
};

class RunCurves {
 public:
  explicit RunCurves(const RunCurvesOptions& options = {}) : options_(options) {}

  // Takes values of a job that runs or has just ended. `step`: steps it has completed.
  void Add(const JobId& job, int64_t step, const std::vector<CurveValue>& values, Moment now);

  // From now on the job's curves may make room for others.
  void End(const JobId& job, Moment now);

  void Forget(const JobId& job);

  // Null: there are none.
  const JobCurves* Find(const JobId& job) const;
  // Of all jobs.
  size_t curves() const { return curves_; }

 private:
  void AddValue(JobCurves& job, const CurveValue& value);
  // Whether there is room for another curve.
  bool MakeRoom();

  const RunCurvesOptions options_;
  // Never iterated: it has no order.
  absl::node_hash_map<JobId, JobCurves> jobs_;
  std::set<std::pair<absl::Time, JobId>> ended_;
  size_t curves_ = 0;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STEPS_RUN_CURVES_H_
