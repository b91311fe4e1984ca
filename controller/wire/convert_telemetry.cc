#include "controller/wire/convert_telemetry.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "controller/core/stragglers/detector/median.h"
#include "controller/wire/convert.h"
#include "controller/wire/convert_straggler.h"

namespace paceline {
namespace {

// Period over which the mean step of a job is taken.
constexpr absl::Duration kRecently = absl::Seconds(10);
// Most names of nodes in a row.
constexpr int kNodesReported = 8;

// Share of `whole` that is not in `part`; 0 if `whole` is 0.
double ShareWithout(double part, double whole) {
  return whole > 0 ? std::clamp(1 - part / whole, 0.0, 1.0) : 0;
}

double MeanStep(const SeriesPoint& point) {
  return point.records > 0 ? point.step_s / static_cast<double>(point.records) : 0;
}

// Slow ranks, nodes and groups, the costliest first.
std::vector<const ReportedVerdict*> SlowOf(const JobStragglers* stragglers) {
  std::vector<const ReportedVerdict*> slow;
  if (stragglers == nullptr) return slow;
  for (const auto& [rank, reported] : stragglers->reported().slow()) slow.push_back(&reported);
  for (const auto& [group, reported] : stragglers->reported().slow_exchanges())
    slow.push_back(&reported);
  std::stable_sort(slow.begin(), slow.end(),
                   [](const ReportedVerdict* a, const ReportedVerdict* b) {
                     return a->verdict.lost_share > b->verdict.lost_share;
                   });
  return slow;
}

RankMeans MeansOf(const MeasuredJob* measured, const Job& job, int rank) {
  const bool known = measured != nullptr && measured->steps != nullptr &&
                     measured->generation == job.generation && rank < measured->steps->ranks();
  return known ? measured->steps->means(rank) : RankMeans();
}

void SetFigures(const Figures& figures, v1::RankTelemetry* out) {
  out->set_tokens_per_s(figures.tokens_per_second);
  if (figures.mfu.has_value()) out->set_mfu(*figures.mfu);
  v1::RankFigures details;
  if (figures.details.empty() || !details.ParseFromString(figures.details)) return;
  out->set_host_bytes(details.memory().rss());
  out->set_device_bytes(details.memory().reserved());
  out->set_device_capacity_bytes(details.memory().capacity());
}

v1::RankTelemetry DescribeRank(int rank, const RankState& state, const RankMeans& means,
                               const JobStragglers* stragglers) {
  v1::RankTelemetry out;
  out.set_rank(rank);
  out.set_node(state.slot.node.value());
  out.set_slot(state.slot.number);
  out.set_state(static_cast<v1::TrainerState>(static_cast<int>(state.report.state) + 1));
  const Progress& progress = state.report.progress;
  out.set_step(progress.step);
  out.set_phase(static_cast<v1::Phase>(progress.phase));
  out.set_phase_s(absl::ToDoubleSeconds(progress.in_phase));
  out.set_step_s(means.step_s);
  out.set_own_s(means.own_s);
  out.set_wait_share(ShareWithout(means.own_s, means.step_s));
  if (means.step_s > 0) out.set_data_wait_share(means.data_wait_s / means.step_s);
  out.set_samples_per_s(progress.samples_per_second);
  out.set_loss(progress.loss);
  out.set_evaluated_batches(progress.evaluated_batches);
  out.set_evaluation_batches(progress.evaluation_batches);
  SetFigures(state.report.figures, &out);
  if (const auto heard = LastHeard(state); heard.has_value()) *out.mutable_last_heard() = *heard;
  if (stragglers == nullptr) return out;
  const auto slow = stragglers->reported().slow().find(rank);
  if (slow != stragglers->reported().slow().end()) *out.mutable_verdict() = ToProto(slow->second);
  return out;
}

// Median of the known values.
double KnownMedian(std::vector<double> values) {
  values.erase(std::remove(values.begin(), values.end(), 0), values.end());
  return values.empty() ? 0 : MedianOf(absl::MakeSpan(values));
}

// Adds a rank's number. The mean is the sum as long as ranks are added.
void AddNumber(const v1::ReportedNumber& number, v1::JobNumber* sum) {
  const bool first = sum->ranks() == 0;
  sum->set_step(std::max(sum->step(), number.step()));
  sum->set_mean(sum->mean() + number.value());
  sum->set_least(first ? number.value() : std::fmin(sum->least(), number.value()));
  sum->set_most(first ? number.value() : std::fmax(sum->most(), number.value()));
  sum->set_ranks(sum->ranks() + 1);
}

// Calls `each` with the figures of the first `most` ranks. Old reports count only where there is
// nothing newer, as in the job's progress.
void ForEachFigures(const Job& job, size_t most,
                    const std::function<void(const v1::RankFigures&)>& each) {
  const auto answers = [](const RankState& rank) {
    return rank.unreachable_since == absl::InfiniteFuture();
  };
  const auto end = job.ranks.begin() + static_cast<ptrdiff_t>(std::min(job.ranks.size(), most));
  const bool any_answers = std::any_of(job.ranks.begin(), end, answers);
  for (auto rank = job.ranks.begin(); rank != end; ++rank) {
    if (any_answers && !answers(*rank)) continue;
    v1::RankFigures figures;
    if (figures.ParseFromString(rank->report.figures.details)) each(figures);
  }
}

// The numbers of scripts by name, over ranks.
class NumberSums {
 public:
  void Add(const v1::RankFigures& figures) {
    for (const v1::ReportedNumber& number : figures.reported()) {
      AddNumber(number, &sums_[number.name()]);
    }
  }
  std::vector<v1::JobNumber> Numbers() const {
    std::vector<v1::JobNumber> numbers;
    for (const auto& [name, sum] : sums_) {
      v1::JobNumber& number = numbers.emplace_back(sum);
      number.set_name(name);
      number.set_mean(sum.mean() / sum.ranks());
    }
    return numbers;
  }

 private:
  std::map<std::string, v1::JobNumber> sums_;
};

void SetReported(const Job& job, v1::JobSeries* out) {
  NumberSums sums;
  ForEachFigures(job, job.ranks.size(), [&](const v1::RankFigures& figures) { sums.Add(figures); });
  for (const v1::JobNumber& number : sums.Numbers()) {
    if (out->reported_size() == kNumbersReported) break;
    *out->add_reported() = number;
  }
}

}  // namespace

bool HasTelemetry(const Job& job) {
  return !job.ended_already() && job.started != absl::InfinitePast();
}

int CountSlow(const JobStragglers* stragglers) {
  return static_cast<int>(SlowOf(stragglers).size());
}

v1::JobTelemetry DescribeTelemetry(const Job& job, const MeasuredJob* measured,
                                   const JobStragglers* stragglers) {
  v1::JobTelemetry out;
  out.set_job_id(job.request.id.value());
  const std::vector<const ReportedVerdict*> slow = SlowOf(stragglers);
  out.set_slow_count(static_cast<int>(slow.size()));
  for (size_t i = 0; i < slow.size() && i < kSlowReported; ++i) *out.add_slow() = ToProto(*slow[i]);
  if (stragglers != nullptr && !stragglers->policy().decisions().empty()) {
    const RemedyDecision& newest = stragglers->policy().decisions().back();
    out.set_decision(DescribeRemedy(newest));
    out.set_decision_state(static_cast<v1::DecisionState>(static_cast<int>(newest.state) + 1));
  }
  if (measured == nullptr || measured->series.points().empty()) return out;
  const std::deque<SeriesPoint>& points = measured->series.points();
  SeriesPoint recently;
  for (auto point = points.rbegin();
       point != points.rend() && points.back().end - point->end < kRecently; ++point) {
    recently.records += point->records;
    recently.step_s += point->step_s;
    recently.own_s += point->own_s;
  }
  out.set_step_s(MeanStep(recently));
  out.set_wait_share(ShareWithout(recently.own_s, recently.step_s));
  const size_t first = points.size() - std::min<size_t>(points.size(), kRecentPoints);
  for (size_t i = first; i < points.size(); ++i) {
    out.add_recent_step_s(static_cast<float>(MeanStep(points[i])));
  }
  return out;
}

v1::JobRanks DescribeRanks(const Job& job, const MeasuredJob* measured,
                           const JobStragglers* stragglers, int slowest) {
  v1::JobRanks out;
  out.set_job_id(job.request.id.value());
  out.set_generation(job.generation.value());
  const int count = static_cast<int>(job.ranks.size());
  out.set_rank_count(count);
  std::vector<RankMeans> means;
  std::vector<double> steps;
  std::vector<double> owns;
  for (int r = 0; r < count; ++r) {
    means.push_back(MeansOf(measured, job, r));
    steps.push_back(means.back().step_s);
    owns.push_back(means.back().own_s);
  }
  std::vector<int> shown(static_cast<size_t>(count));
  std::iota(shown.begin(), shown.end(), 0);
  if (slowest > 0) {
    std::stable_sort(shown.begin(), shown.end(), [&](int a, int b) {
      return owns[static_cast<size_t>(a)] > owns[static_cast<size_t>(b)];
    });
    shown.resize(std::min(shown.size(), static_cast<size_t>(slowest)));
  }
  out.set_median_step_s(KnownMedian(std::move(steps)));
  out.set_median_own_s(KnownMedian(std::move(owns)));
  for (const int r : shown) {
    const auto rank = static_cast<size_t>(r);
    *out.add_ranks() = DescribeRank(r, job.ranks[rank], means[rank], stragglers);
  }
  return out;
}

v1::JobSteps DescribeSteps(const Job& job, const MeasuredJob* measured, int steps, int rows) {
  v1::JobSteps out;
  out.set_job_id(job.request.id.value());
  out.set_rank_count(static_cast<int>(job.ranks.size()));
  out.set_ranks_per_row(1);
  if (measured == nullptr || measured->steps == nullptr) return out;
  const StepTable table = measured->steps->View(steps, rows);
  out.set_generation(measured->generation.value());
  out.set_rank_count(table.ranks);
  out.set_ranks_per_row(table.ranks_per_row);
  out.set_first_step(table.first_step);
  out.set_steps(table.steps);
  out.set_median_own_s(table.median_own_s);
  for (const StepTable::Row& row : table.rows) {
    v1::StepRow* shown = out.add_rows();
    shown->set_first_rank(row.first_rank);
    // After the job's end, or while ranks are replaced, there may be fewer.
    const int end =
        std::min(row.first_rank + table.ranks_per_row, static_cast<int>(job.ranks.size()));
    for (int r = row.first_rank; r < end && shown->nodes_size() < kNodesReported; ++r) {
      const std::string& node = job.ranks[static_cast<size_t>(r)].slot.node.value();
      if (shown->nodes().empty() || shown->nodes(shown->nodes_size() - 1) != node) {
        shown->add_nodes(node);
      }
    }
    shown->mutable_step_s()->Add(row.step_s.begin(), row.step_s.end());
    shown->mutable_own_s()->Add(row.own_s.begin(), row.own_s.end());
  }
  return out;
}

v1::JobSeries DescribeSeries(const Job& job, const MeasuredJob* measured, absl::Time since) {
  v1::JobSeries out;
  out.set_job_id(job.request.id.value());
  if (job.ended_already()) *out.mutable_end_time() = ToProto(job.ended);
  SetReported(job, &out);
  if (measured == nullptr) return out;
  out.set_period_s(absl::ToDoubleSeconds(measured->series.period()));
  for (const SeriesPoint& point : measured->series.points()) {
    if (point.end <= since) continue;
    v1::SeriesPoint* shown = out.add_points();
    *shown->mutable_time() = ToProto(point.end);
    shown->set_step(point.step);
    shown->set_step_s(MeanStep(point));
    shown->set_wait_share(ShareWithout(point.own_s, point.step_s));
    if (point.step_s > 0) shown->set_data_wait_share(point.data_wait_s / point.step_s);
    shown->set_loss(point.loss);
    shown->set_samples_per_s(point.samples_per_second);
    shown->set_tokens_per_s(point.tokens_per_second);
    if (point.mfu.has_value()) shown->set_mfu(*point.mfu);
  }
  return out;
}

v1::JobCurves DescribeCurves(const Job& job, const JobCurves* curves) {
  v1::JobCurves out;
  out.set_job_id(job.request.id.value());
  if (curves == nullptr) return out;
  *out.mutable_since() = ToProto(curves->since);
  out.set_since_step(curves->since_step);
  out.set_left_out(curves->left_out);
  for (const auto& [name, curve] : curves->curves) {
    v1::Curve* shown = out.add_curves();
    shown->set_name(name.name);
    shown->set_reported(name.reported);
    shown->set_width(curve.width());
    for (const CurvePoint& point : curve.points()) {
      v1::CurvePoint* added = shown->add_points();
      added->set_step(point.step);
      added->set_values(point.values);
      added->set_not_finite(point.not_finite);
      if (point.values == 0) continue;
      added->set_least(point.least);
      added->set_mean(point.sum / point.values);
      added->set_most(point.most);
    }
  }
  return out;
}

std::vector<CurveValue> NumbersOf(const Job& job) {
  std::vector<CurveValue> values;
  NumberSums sums;
  ForEachFigures(job, kRanksRead, [&](const v1::RankFigures& figures) {
    sums.Add(figures);
    // The same on every rank.
    if (!values.empty()) return;
    const auto add = [&](const char* name, double value) {
      values.push_back({{/*reported=*/false, name}, figures.step(), value});
    };
    if (figures.has_learning_rate()) add(curve_name::kLearningRate, figures.learning_rate());
    if (figures.grad_norm() != 0) add(curve_name::kGradNorm, figures.grad_norm());
  });
  for (const v1::JobNumber& number : sums.Numbers()) {
    values.push_back({{/*reported=*/true, number.name()}, number.step(), number.mean()});
  }
  return values;
}

}  // namespace paceline
