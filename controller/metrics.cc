#include "controller/metrics.h"

#include <prometheus/text_serializer.h>

#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "proto/job.pb.h"
#include "proto/node.pb.h"
#include "proto/status.pb.h"

namespace paceline {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;

const prometheus::Histogram::BucketBoundaries kCommitBuckets = {0.001, 0.0025, 0.005, 0.01, 0.025,
                                                                0.05,  0.1,    0.25,  0.5,  1};
const prometheus::Histogram::BucketBoundaries kStepBuckets = {0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                                                              0.5,   1,    2.5,   5,    10,  30};
const prometheus::Histogram::BucketBoundaries kWaitBuckets = {0.1, 0.5, 1,   2.5, 5,
                                                              10,  30,  120, 600, 3600};

std::string StateLabel(JobState state) {
  return absl::AsciiStrToLower(
      v1::JobState_Name(static_cast<v1::JobState>(static_cast<int>(state) + 1)));
}

std::string StateLabel(NodeState state) {
  std::string name = v1::NodeState_Name(static_cast<v1::NodeState>(static_cast<int>(state) + 1));
  return absl::AsciiStrToLower(absl::StripPrefix(name, "NODE_"));
}

std::string PhaseLabel(int phase) {
  return absl::AsciiStrToLower(v1::Phase_Name(static_cast<v1::Phase>(phase)));
}

}  // namespace

ControllerMetrics::ControllerMetrics(const std::string& version)
    : jobs_(BuildGauge().Name("paceline_jobs").Help("Jobs by state.").Register(registry_)),
      nodes_(BuildGauge().Name("paceline_nodes").Help("Nodes by state.").Register(registry_)),
      finished_(BuildCounter()
                    .Name("paceline_jobs_finished_total")
                    .Help("Jobs that reached a terminal state.")
                    .Register(registry_)),
      step_(BuildGauge()
                .Name("paceline_job_step")
                .Help("Steps that every rank of the job has completed.")
                .Register(registry_)),
      loss_(BuildGauge()
                .Name("paceline_job_loss")
                .Help("Last reported loss, mean over the ranks.")
                .Register(registry_)),
      samples_(BuildGauge()
                   .Name("paceline_job_samples_per_second")
                   .Help("Samples per second of all ranks together.")
                   .Register(registry_)),
      tokens_(BuildGauge()
                  .Name("paceline_job_tokens_per_second")
                  .Help("Tokens per second of all ranks together.")
                  .Register(registry_)),
      mfu_(BuildGauge()
               .Name("paceline_job_mfu_ratio")
               .Help("Model FLOPs utilization, 0 to 1, mean over the ranks.")
               .Register(registry_)),
      accuracy_(BuildGauge()
                    .Name("paceline_job_evaluation_accuracy_ratio")
                    .Help("Accuracy of the latest evaluation, 0 to 1.")
                    .Register(registry_)),
      step_duration_(BuildHistogram()
                         .Name("paceline_job_step_duration_seconds")
                         .Help("Duration of the ranks' steps.")
                         .Register(registry_)),
      phase_seconds_(BuildCounter()
                         .Name("paceline_job_phase_seconds_total")
                         .Help("Time that the ranks spent in each phase of their steps.")
                         .Register(registry_)),
      commit_(BuildHistogram()
                  .Name("paceline_state_commit_duration_seconds")
                  .Help("Time to durably commit one state transaction.")
                  .Register(registry_)
                  .Add({}, kCommitBuckets)),
      start_duration_(BuildHistogram()
                          .Name("paceline_job_start_duration_seconds")
                          .Help("Placed until every rank trains.")
                          .Register(registry_)
                          .Add({}, kWaitBuckets)),
      queue_wait_(BuildHistogram()
                      .Name("paceline_job_queue_wait_seconds")
                      .Help("Submitted until placed.")
                      .Register(registry_)
                      .Add({}, kWaitBuckets)),
      replays_(BuildCounter()
                   .Name("paceline_request_replays_total")
                   .Help("Requests answered from the record of an earlier one.")
                   .Register(registry_)
                   .Add({})),
      dropped_(BuildCounter()
                   .Name("paceline_telemetry_dropped_total")
                   .Help("Step records that workers dropped because a buffer was full.")
                   .Register(registry_)
                   .Add({})),
      sessions_(BuildGauge()
                    .Name("paceline_worker_sessions")
                    .Help("Workers connected.")
                    .Register(registry_)
                    .Add({})),
      automation_paused_(BuildGauge()
                             .Name("paceline_automation_paused")
                             .Help("1 while the automation is paused, by a person or the brake.")
                             .Register(registry_)
                             .Add({})),
      checkpoints_(&registry_),
      memberships_(&registry_) {
  BuildGauge()
      .Name("paceline_build_info")
      .Help("Build information; value is always 1.")
      .Register(registry_)
      .Add({{"component", "controller"}, {"version", version}})
      .Set(1);
  for (const char* state : {"succeeded", "failed", "cancelled"}) finished_.Add({{"state", state}});
}

std::string ControllerMetrics::Text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

void ControllerMetrics::ShowCluster(const Cluster& cluster) {
  for (const auto& [id, job] : cluster.jobs()) {
    states_[id] = job.state;
    checkpoints_.Begin(job);
    memberships_.Begin(job);
    if (!job.ended_already()) ShowJob(job);
  }
  CountStates(cluster);
}

void ControllerMetrics::ShowChanges(const Cluster& cluster, const Actions& actions) {
  for (const JobId& id : actions.show_jobs) {
    const auto found = cluster.jobs().find(id);
    if (found == cluster.jobs().end()) continue;
    const Job& job = found->second;
    checkpoints_.Count(job);
    memberships_.Count(job);
    const auto [known, added] = states_.emplace(id, JobState::kQueued);
    const JobState before = std::exchange(known->second, job.state);
    if (before == JobState::kQueued && job.holds_slots() && job.generation == Generation(1)) {
      queue_wait_.Observe(absl::ToDoubleSeconds(job.placed - job.created));
    }
    if (before != JobState::kRunning && before != JobState::kRecovering &&
        job.state == JobState::kRunning) {
      start_duration_.Observe(absl::ToDoubleSeconds(job.started - job.placed));
    }
    if (before != job.state && job.ended_already()) {
      finished_.Add({{"state", StateLabel(job.state)}}).Increment();
    }
    if (!job.ranks.empty()) ShowJob(job);
  }
  for (const JobId& id : actions.delete_jobs) {
    states_.erase(id);
    checkpoints_.Forget(id);
    memberships_.Forget(id);
  }
  if (!actions.store_jobs.empty() || !actions.delete_jobs.empty() || !actions.show_nodes.empty() ||
      actions.store_automation) {
    CountStates(cluster);
    RemoveOldSeries(absl::Now());
  }
}

void ControllerMetrics::ShowJob(const Job& job) {
  JobSeries& series = Series(job.request.id.value());
  const JobProgress progress = Summarize(job, job.created);
  series.step->Set(static_cast<double>(progress.step));
  series.loss->Set(progress.loss);
  series.samples_per_second->Set(job.ended_already() ? 0 : progress.samples_per_second);
  const prometheus::Labels labels = {{"job_id", job.request.id.value()}};
  const auto set_if_known = [&](Family<prometheus::Gauge>& family, prometheus::Gauge*& gauge,
                                double value, bool known) {
    if (!known) return;
    if (gauge == nullptr) gauge = &family.Add(labels);
    gauge->Set(value);
  };
  set_if_known(tokens_, series.tokens_per_second,
               job.ended_already() ? 0 : progress.tokens_per_second,
               progress.tokens_per_second > 0);
  set_if_known(mfu_, series.mfu, job.ended_already() ? 0 : progress.mfu.value_or(0),
               progress.mfu.has_value());
  const std::optional<double> accuracy =
      job.evaluation.has_value() ? job.evaluation->accuracy : std::nullopt;
  set_if_known(accuracy_, series.accuracy, accuracy.value_or(0), accuracy.has_value());
  checkpoints_.Show(job);
  series.ended = job.ended_already() ? job.ended : absl::InfiniteFuture();
}

void ControllerMetrics::CountStates(const Cluster& cluster) {
  std::map<std::string, int> jobs;
  for (int s = 0; s <= static_cast<int>(JobState::kRecovering); ++s) {
    jobs[StateLabel(static_cast<JobState>(s))] = 0;
  }
  for (const auto& [id, job] : cluster.jobs()) ++jobs[StateLabel(job.state)];
  for (const auto& [state, count] : jobs) jobs_.Add({{"state", state}}).Set(count);
  std::map<NodeState, int> nodes;
  for (const auto& [name, node] : cluster.nodes()) ++nodes[node.state];
  for (int s = 0; s <= static_cast<int>(NodeState::kLost); ++s) {
    const auto state = static_cast<NodeState>(s);
    nodes_.Add({{"state", StateLabel(state)}}).Set(nodes[state]);
  }
  automation_paused_.Set(cluster.automation().paused ? 1 : 0);
}

ControllerMetrics::JobSeries& ControllerMetrics::Series(const std::string& job_id) {
  const auto [found, added] = series_.try_emplace(job_id);
  JobSeries& series = found->second;
  if (!added) return series;
  const prometheus::Labels labels = {{"job_id", job_id}};
  series.step = &step_.Add(labels);
  series.loss = &loss_.Add(labels);
  series.samples_per_second = &samples_.Add(labels);
  series.step_duration = &step_duration_.Add(labels, kStepBuckets);
  for (int phase = 0; phase < v1::Phase_ARRAYSIZE; ++phase) {
    series.phase_seconds.push_back(
        &phase_seconds_.Add({{"job_id", job_id}, {"phase", PhaseLabel(phase)}}));
  }
  return series;
}

void ControllerMetrics::AddSteps(const v1::StepBatch& batch) {
  dropped_.Increment(static_cast<double>(batch.dropped()));
  const auto found = series_.find(batch.id().job_id());
  if (found == series_.end()) return;
  JobSeries& series = found->second;
  for (const v1::StepRecord& step : batch.records()) {
    const int64_t phases[] = {step.total_ns() - step.data_wait_ns() - step.forward_ns() -
                                  step.backward_ns() - step.communication_ns() -
                                  step.optimizer_ns() - step.averaging_ns() - step.round_wait_ns(),
                              step.data_wait_ns(),
                              step.forward_ns(),
                              step.backward_ns(),
                              step.communication_ns(),
                              step.optimizer_ns(),
                              step.averaging_ns(),
                              step.round_wait_ns()};
    static_assert(std::size(phases) == v1::Phase_ARRAYSIZE);
    series.step_duration->Observe(1e-9 * step.total_ns());
    for (size_t p = 0; p < series.phase_seconds.size(); ++p) {
      if (phases[p] > 0) series.phase_seconds[p]->Increment(1e-9 * phases[p]);
    }
  }
}

void ControllerMetrics::RemoveOldSeries(absl::Time wall_now) {
  for (auto i = series_.begin(); i != series_.end();) {
    JobSeries& series = i->second;
    if (wall_now - series.ended < kEndedJobSeries) {
      ++i;
      continue;
    }
    step_.Remove(series.step);
    loss_.Remove(series.loss);
    samples_.Remove(series.samples_per_second);
    if (series.tokens_per_second != nullptr) tokens_.Remove(series.tokens_per_second);
    if (series.mfu != nullptr) mfu_.Remove(series.mfu);
    if (series.accuracy != nullptr) accuracy_.Remove(series.accuracy);
    step_duration_.Remove(series.step_duration);
    for (prometheus::Counter* counter : series.phase_seconds) phase_seconds_.Remove(counter);
    checkpoints_.Remove(JobId(i->first));
    i = series_.erase(i);
  }
}

void ControllerMetrics::Committed(absl::Duration took) {
  commit_.Observe(absl::ToDoubleSeconds(took));
}

void ControllerMetrics::RequestReplayed() { replays_.Increment(); }

void ControllerMetrics::WorkerConnected(bool connected) {
  connected ? sessions_.Increment() : sessions_.Decrement();
}

}  // namespace paceline
