#include "cli/top/top_model.h"

#include <algorithm>

namespace paceline {
namespace {

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> StepTimes(const v1::Job& job) {
  std::vector<double> times;
  for (const v1::Rank& rank : job.ranks()) {
    if (rank.progress().step_s() > 0 && !rank.has_last_heard())
      times.push_back(rank.progress().step_s());
  }
  return times;
}

}  // namespace

v1::JobRanks RanksOf(const v1::Job& job) {
  v1::JobRanks ranks;
  ranks.set_job_id(job.id());
  ranks.set_generation(job.generation());
  ranks.set_rank_count(job.ranks_size());
  ranks.set_median_step_s(Median(StepTimes(job)));
  for (const v1::Rank& rank : job.ranks()) {
    v1::RankTelemetry& row = *ranks.add_ranks();
    row.set_rank(rank.rank());
    row.set_node(rank.node());
    row.set_slot(rank.slot());
    row.set_state(rank.state());
    row.set_step(rank.progress().step());
    row.set_phase(rank.progress().phase());
    row.set_phase_s(rank.progress().phase_s());
    row.set_step_s(rank.progress().step_s());
    row.set_data_wait_share(rank.figures().data_wait_share());
    row.set_samples_per_s(rank.progress().samples_per_s());
    row.set_tokens_per_s(rank.figures().tokens_per_s());
    if (rank.figures().has_mfu()) row.set_mfu(rank.figures().mfu());
    row.set_host_bytes(rank.figures().memory().rss());
    row.set_device_bytes(rank.figures().memory().reserved());
    row.set_device_capacity_bytes(rank.figures().memory().capacity());
    row.set_loss(rank.progress().loss());
    if (rank.has_last_heard()) *row.mutable_last_heard() = rank.last_heard();
  }
  return ranks;
}

double StepSeconds(const TopModel& model, const v1::Job& job) {
  const auto known = model.telemetry.find(job.id());
  if (known != model.telemetry.end() && known->second.step_s() > 0) {
    return known->second.step_s();
  }
  return job.state() == v1::RUNNING ? Median(StepTimes(job)) : 0;
}

}  // namespace paceline
