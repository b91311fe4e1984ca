// How far a job has come, by the reports of its ranks.
#include <algorithm>

#include "controller/core/job/job.h"
#include "controller/core/recovery/membership.h"

namespace paceline {

JobProgress Summarize(const Job& job, absl::Time wall_now) {
  JobProgress sum;
  if (job.ranks.empty()) return sum;
  const bool replaced = job.generation != job.recovery.started;
  const auto is_unreachable = [](const RankState& rank) {
    return rank.unreachable_since != absl::InfiniteFuture();
  };
  // The last report of an unreachable rank is old: it does not show the present rate, and its step
  // and loss count only if all ranks are unreachable.
  const bool all_unreachable = std::all_of(job.ranks.begin(), job.ranks.end(), is_unreachable);
  bool any = false;
  double mfu = 0;
  int with_mfu = 0;
  int with_loss = 0;
  for (const RankState& rank : job.ranks) {
    const Progress& progress = rank.report.progress;
    const bool is_old = !all_unreachable && is_unreachable(rank);
    if (!is_old && (!replaced || HasState(job, rank))) {  // A newcomer has done no step yet.
      // A rank that has just met the others may not have reported its progress yet.
      const int64_t step = std::max(progress.step, rank.report.membership.step);
      const bool is_newer = job.plan.slipstream.has_value() ? step > sum.step : step < sum.step;
      if (!any || is_newer) sum.step = step;
      any = true;
    }
    if (!is_old && progress.step > 0) {  // Before its first step a rank has no loss.
      sum.loss += progress.loss;
      ++with_loss;
    }
    if (is_unreachable(rank)) continue;
    sum.samples_per_second += progress.samples_per_second;
    sum.tokens_per_second += rank.report.figures.tokens_per_second;
    sum.flops_per_second += rank.report.figures.flops_per_second;
    if (sum.flops_source == FlopsSource::kUnknown) {
      sum.flops_source = rank.report.figures.flops_source;
    }
    if (!rank.report.figures.mfu.has_value()) continue;
    mfu += *rank.report.figures.mfu;
    ++with_mfu;
  }
  if (with_loss > 0) sum.loss /= with_loss;
  if (with_mfu > 0) sum.mfu = mfu / with_mfu;
  if (job.started != absl::InfinitePast()) {
    sum.training = (job.ended_already() ? job.ended : wall_now) - job.started;
  }
  return sum;
}

void DropEvaluationAfter(Job& job, int64_t step) {
  if (job.evaluation.has_value() && job.evaluation->step > step) job.evaluation.reset();
}

}  // namespace paceline
