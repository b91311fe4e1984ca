#include "controller/metrics/job_metrics.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "proto/worker.pb.h"

namespace paceline {
namespace {

using prometheus::Labels;

constexpr double kNanosecond = 1e-9;
constexpr const char* kRoleNames[] = {"active", "spare", "leaving"};

double UnixSeconds(absl::Time time) { return absl::ToDoubleSeconds(time - absl::UnixEpoch()); }

// Durations by number of the phase, in nanoseconds.
std::array<int64_t, v1::Phase_ARRAYSIZE> PhasesOf(const v1::StepRecord& step) {
  const int64_t idle = step.total_ns() - step.data_wait_ns() - step.forward_ns() -
                       step.backward_ns() - step.communication_ns() - step.optimizer_ns() -
                       step.averaging_ns() - step.round_wait_ns();
  return {idle,
          step.data_wait_ns(),
          step.forward_ns(),
          step.backward_ns(),
          step.communication_ns(),
          step.optimizer_ns(),
          step.averaging_ns(),
          step.round_wait_ns()};
}

// Sets the series, adding it when its value first becomes known.
void SetIfKnown(Gauges& family, const JobId& id, prometheus::Gauge*& gauge,
                std::optional<double> value) {
  if (!value.has_value()) return;
  if (gauge == nullptr) gauge = &family.Add({{"job_id", id.value()}});
  gauge->Set(*value);
}

const char* NameOf(FlopsSource source) {
  switch (source) {
    case FlopsSource::kUnknown:
      return "unknown";
    case FlopsSource::kFormula:
      return "formula";
    case FlopsSource::kCounted:
      return "counted";
    case FlopsSource::kGiven:
      return "given";
  }
  return "unknown";
}

const char* CauseOf(const MembershipChange& change) {
  return change.planned ? "planned" : "failure";
}

}  // namespace

JobMetrics::JobMetrics(MetricRegistry& registry)
    : info_(registry.NewGauges("paceline_job_info")),
      states_(registry.NewGauges("paceline_job_state")),
      created_(registry.NewGauges("paceline_job_created_timestamp_seconds")),
      attempt_(registry.NewGauges("paceline_job_attempt")),
      generation_(registry.NewGauges("paceline_job_generation")),
      version_(registry.NewGauges("paceline_job_plan_version")),
      ranks_(registry.NewGauges("paceline_job_ranks")),
      nodes_(registry.NewGauges("paceline_job_nodes")),
      spares_wanted_(registry.NewGauges("paceline_job_spares_wanted")),
      gpus_(registry.NewGauges("paceline_job_gpus")),
      step_(registry.NewGauges("paceline_job_step")),
      loss_(registry.NewGauges("paceline_job_loss")),
      samples_per_second_(registry.NewGauges("paceline_job_samples_per_second")),
      tokens_per_second_(registry.NewGauges("paceline_job_tokens_per_second")),
      mfu_(registry.NewGauges("paceline_job_mfu_ratio")),
      flops_(registry.NewGauges("paceline_job_flops_per_second")),
      accuracy_(registry.NewGauges("paceline_job_evaluation_accuracy_ratio")),
      evaluation_loss_(registry.NewGauges("paceline_job_evaluation_loss")),
      progressed_(registry.NewGauges("paceline_job_last_progress_timestamp_seconds")),
      steps_executed_(registry.NewCounters("paceline_job_steps_executed_total")),
      steps_lost_(registry.NewCounters("paceline_job_steps_lost_total")),
      samples_(registry.NewCounters("paceline_job_samples_total")),
      tokens_(registry.NewCounters("paceline_job_tokens_total")),
      step_duration_(registry.NewHistograms("paceline_job_step_duration_seconds")),
      phases_(registry.NewCounters("paceline_job_phase_seconds_total")),
      times_(registry.NewCounters("paceline_job_time_seconds_total")) {}

void JobMetrics::Follow(const Job& job, Moment now) {
  const auto found = jobs_.find(job.request.id);
  if (found == jobs_.end()) {
    if (!job.ended_already()) jobs_.emplace(job.request.id, JobAccount(job, now));
  } else if (job.ended_already() && found->second.series == nullptr) {
    jobs_.erase(found);  // It never began.
  } else {
    found->second.account.Follow(job, now);
  }
}

void JobMetrics::AddSteps(const JobId& job, const v1::StepBatch& batch) {
  const auto found = jobs_.find(job);
  if (found == jobs_.end() || found->second.series == nullptr) return;
  Series& series = *found->second.series;
  double samples = 0;
  double tokens = 0;
  // Nanoseconds over all steps. Adding to counters, which scrapes read, for each step costs more.
  std::array<double, v1::Phase_ARRAYSIZE> sums{};
  for (const v1::StepRecord& step : batch.records()) {
    const auto total = static_cast<double>(step.total_ns());
    series.step_duration->Observe(kNanosecond * total);
    found->second.account.TakeStep(kNanosecond * total,
                                   kNanosecond * static_cast<double>(step.data_wait_ns()));
    const auto phases = PhasesOf(step);
    for (size_t p = 0; p < phases.size(); ++p) {
      if (phases[p] > 0) sums[p] += static_cast<double>(phases[p]);
    }
    samples += static_cast<double>(step.samples());
    tokens += static_cast<double>(step.tokens());
  }
  for (size_t p = 0; p < sums.size(); ++p) {
    if (sums[p] > 0) series.phases[p]->Increment(kNanosecond * sums[p]);
  }
  if (samples > 0) series.samples->Increment(samples);
  if (tokens <= 0) return;
  if (series.tokens == nullptr) series.tokens = &tokens_.Add({{"job_id", job.value()}});
  series.tokens->Increment(tokens);
}

void JobMetrics::Show(const Job& job, Moment now) {
  const auto found = jobs_.find(job.request.id);
  if (found == jobs_.end()) return;
  Known& known = found->second;
  if (known.series == nullptr) {
    if (job.ranks.empty()) return;
    known.series = std::make_unique<Series>();
    Begin(job, *known.series);
  }
  Series& series = *known.series;
  known.account.Follow(job, now);
  for (int s = 0; s < kJobStates; ++s) {
    series.states[static_cast<size_t>(s)]->Set(static_cast<int>(job.state) == s ? 1 : 0);
  }
  series.attempt->Set(1 + job.restarts);
  series.generation->Set(static_cast<double>(job.generation.value()));
  series.version->Set(static_cast<double>(job.plan.version.value()));
  ShowTrainers(job, series);
  if (!job.ranks.empty()) ShowProgress(job, now, series);
  const JobAccount& account = known.account;
  RaiseTo(*series.steps_executed, static_cast<double>(account.steps_executed()));
  RaiseTo(*series.steps_lost, static_cast<double>(account.steps_lost()));
  for (size_t c = 0; c < kTimeCategories; ++c) RaiseTo(*series.times[c], account.seconds()[c]);
  if (account.progressed() != absl::InfinitePast()) {
    SetIfKnown(progressed_, job.request.id, series.progressed, UnixSeconds(account.progressed()));
  }
}

void JobMetrics::Begin(const Job& job, Series& series) {
  const std::string& id = job.request.id.value();
  const Labels labels = {{"job_id", id}};
  const auto labelled = [&](const char* name, const std::string& value) {
    return Labels{{"job_id", id}, {name, value}};
  };
  series.info = &info_.Add({{"job_id", id},
                            {"job_name", job.request.name},
                            {"queue", job.request.queue},
                            {"device", job.request.device == Device::kCuda ? "cuda" : "cpu"},
                            {"strategy", StrategyLabel(job.request)}});
  series.info->Set(1);
  series.created = &created_.Add(labels);
  series.created->Set(UnixSeconds(job.created));
  for (int s = 0; s < kJobStates; ++s) {
    series.states[static_cast<size_t>(s)] =
        &states_.Add(labelled("state", LabelOf(static_cast<JobState>(s))));
  }
  for (size_t r = 0; r < kRoles; ++r) {
    series.ranks[r] = &ranks_.Add(labelled("role", kRoleNames[r]));
    series.nodes[r] = &nodes_.Add(labelled("role", kRoleNames[r]));
  }
  for (int p = 0; p < v1::Phase_ARRAYSIZE; ++p) {
    series.phases.push_back(&phases_.Add(labelled("phase", PhaseLabel(p))));
  }
  for (size_t c = 0; c < kTimeCategories; ++c) {
    series.times[c] = &times_.Add(labelled("category", NameOf(static_cast<TimeCategory>(c))));
  }
  series.attempt = &attempt_.Add(labels);
  series.generation = &generation_.Add(labels);
  series.version = &version_.Add(labels);
  series.spares_wanted = &spares_wanted_.Add(labels);
  series.spares_wanted->Set(job.request.spares);
  series.gpus = &gpus_.Add(labels);
  series.step = &step_.Add(labels);
  series.samples_per_second = &samples_per_second_.Add(labels);
  series.steps_executed = &steps_executed_.Add(labels);
  series.steps_lost = &steps_lost_.Add(labels);
  series.samples = &samples_.Add(labels);
  series.step_duration = &step_duration_.Add(labels);
}

void JobMetrics::ShowTrainers(const Job& job, Series& series) {
  std::set<NodeName> nodes;
  size_t gpus = 0;
  size_t role = 0;
  for (const auto* trainers : {&job.ranks, &job.spares, &job.leaving}) {
    const size_t before = nodes.size();
    // The trainers of an ended job hold nothing; they are only kept to be shown.
    const size_t held = job.holds_slots() ? trainers->size() : 0;
    for (size_t i = 0; i < held; ++i) nodes.insert((*trainers)[i].slot.node);
    series.ranks[role]->Set(static_cast<double>(held));
    series.nodes[role]->Set(static_cast<double>(nodes.size() - before));
    gpus += job.request.device == Device::kCuda ? held : 0;
    ++role;
  }
  series.gpus->Set(static_cast<double>(gpus));
}

void JobMetrics::ShowProgress(const Job& job, Moment now, Series& series) {
  const JobId& id = job.request.id;
  const JobProgress progress = Summarize(job, now.wall);
  const double pace = job.ended_already() ? 0 : 1;
  series.step->Set(static_cast<double>(progress.step));
  // Before the first step of the job or of a new member, the mean over the ranks is not known; that
  // they have done no steps and samples is.
  const bool all_reported = std::all_of(
      job.ranks.begin(), job.ranks.end(),
      [](const RankState& rank) { return rank.report.progress.step_time > absl::ZeroDuration(); });
  // A loss of exactly 0 is not known, as of a watched script.
  if (all_reported && (progress.loss != 0 || series.loss != nullptr)) {
    SetIfKnown(loss_, id, series.loss, progress.loss);
  }
  series.samples_per_second->Set(pace * progress.samples_per_second);
  if (progress.tokens_per_second > 0) {
    SetIfKnown(tokens_per_second_, id, series.tokens_per_second, pace * progress.tokens_per_second);
  }
  if (progress.mfu.has_value()) SetIfKnown(mfu_, id, series.mfu, pace * *progress.mfu);
  ShowFlops(id, progress, pace, series);
  if (job.evaluation.has_value()) {
    SetIfKnown(accuracy_, id, series.accuracy, job.evaluation->accuracy);
    SetIfKnown(evaluation_loss_, id, series.evaluation_loss, job.evaluation->loss);
  }
}

void JobMetrics::ShowFlops(const JobId& id, const JobProgress& progress, double pace,
                           Series& series) {
  // Ranks that are not heard of leave the series as it is, at 0.
  const bool known = progress.flops_source != FlopsSource::kUnknown;
  if (!known && series.flops == nullptr) return;
  if (known && progress.flops_source != series.flops_source) {
    flops_.Remove(series.flops);
    series.flops_source = progress.flops_source;
    series.flops = &flops_.Add({{"job_id", id.value()}, {"source", NameOf(series.flops_source)}});
  }
  series.flops->Set(pace * progress.flops_per_second);
}

void JobMetrics::Forget(const JobId& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  if (found->second.series != nullptr) Remove(*found->second.series);
  jobs_.erase(found);
}

void JobMetrics::Remove(Series& series) {
  for (prometheus::Gauge* gauge : series.states) states_.Remove(gauge);
  for (prometheus::Gauge* gauge : series.ranks) ranks_.Remove(gauge);
  for (prometheus::Gauge* gauge : series.nodes) nodes_.Remove(gauge);
  for (prometheus::Counter* counter : series.phases) phases_.Remove(counter);
  for (prometheus::Counter* counter : series.times) times_.Remove(counter);
  info_.Remove(series.info);
  created_.Remove(series.created);
  attempt_.Remove(series.attempt);
  generation_.Remove(series.generation);
  version_.Remove(series.version);
  spares_wanted_.Remove(series.spares_wanted);
  gpus_.Remove(series.gpus);
  step_.Remove(series.step);
  samples_per_second_.Remove(series.samples_per_second);
  steps_executed_.Remove(series.steps_executed);
  steps_lost_.Remove(series.steps_lost);
  samples_.Remove(series.samples);
  step_duration_.Remove(series.step_duration);
  // Removed where they exist; removing a missing series does nothing.
  loss_.Remove(series.loss);
  tokens_.Remove(series.tokens);
  tokens_per_second_.Remove(series.tokens_per_second);
  mfu_.Remove(series.mfu);
  flops_.Remove(series.flops);
  accuracy_.Remove(series.accuracy);
  evaluation_loss_.Remove(series.evaluation_loss);
  progressed_.Remove(series.progressed);
}

bool JobMetrics::Shows(const JobId& id) const {
  const auto found = jobs_.find(id);
  return found != jobs_.end() && found->second.series != nullptr;
}

std::vector<JobId> JobMetrics::Shown() const {
  std::vector<JobId> shown;
  for (const auto& [id, known] : jobs_) {
    if (known.series != nullptr) shown.push_back(id);
  }
  std::sort(shown.begin(), shown.end());
  return shown;
}

QueueMetrics::QueueMetrics(MetricRegistry& registry)
    : jobs_(registry.NewGauges("paceline_queue_jobs")),
      wait_(registry.NewHistograms("paceline_job_queue_wait_seconds")),
      start_(registry.NewHistograms("paceline_job_start_duration_seconds")),
      finished_(registry.NewCounters("paceline_jobs_finished_total")),
      restarts_(registry.NewCounters("paceline_job_restarts_total")) {}

void QueueMetrics::SetQueues(const Queues& queues) {
  for (const auto& [name, queue] : queues) Get(name);
}

QueueMetrics::Queued& QueueMetrics::Get(const std::string& queue) {
  const auto [found, added] = queues_.try_emplace(queue);
  Queued& queued = found->second;
  if (!added) return queued;
  for (int s = 0; s < kJobStates; ++s) {
    queued.jobs[static_cast<size_t>(s)] =
        &jobs_.Add({{"queue", queue}, {"state", LabelOf(static_cast<JobState>(s))}});
  }
  queued.wait = &wait_.Add({{"queue", queue}});
  queued.start = &start_.Add({{"queue", queue}});
  // Starts the series at 0, so that rates count the first job's end, and not only the second's.
  finished_.Add({{"queue", queue}, {"state", "succeeded"}, {"failure", "none"}});
  finished_.Add({{"queue", queue}, {"state", "cancelled"}, {"failure", "none"}});
  for (int k = 0; k < kFailureKinds; ++k) {
    const std::string failure = LabelOf(static_cast<FailureKind>(k));
    finished_.Add({{"queue", queue}, {"state", "failed"}, {"failure", failure}});
    restarts_.Add({{"queue", queue}, {"failure", failure}});
  }
  return queued;
}

void QueueMetrics::Begin(const Job& job) {
  Counted& counted = counted_[job.request.id];
  counted = {job.request.queue, job.state, job.restarts};
  JobsIn(counted).Increment();
}

bool QueueMetrics::Count(const Job& job) {
  const auto [found, added] = counted_.try_emplace(job.request.id);
  Counted& counted = found->second;
  const JobState before = added ? JobState::kQueued : counted.state;
  if (added || before != job.state || counted.queue != job.request.queue) {
    if (!added) JobsIn(counted).Decrement();
    counted.queue = job.request.queue;
    counted.state = job.state;
    JobsIn(counted).Increment();
  }
  const Queued& queued = Get(job.request.queue);
  // After a resumption it counts from 0 again.
  const int restarts = job.restarts - std::exchange(counted.restarts, job.restarts);
  if (restarts > 0) {
    restarts_.Add({{"queue", counted.queue}, {"failure", LabelOf(job.restart_failure)}})
        .Increment(restarts);
  }
  if (before == job.state) return added;
  if (before == JobState::kQueued && job.holds_slots() && job.generation == Generation(1)) {
    queued.wait->Observe(absl::ToDoubleSeconds(job.placed - job.created));
  }
  if (before != JobState::kRecovering && job.state == JobState::kRunning) {
    queued.start->Observe(absl::ToDoubleSeconds(job.started - job.placed));
  }
  if (job.ended_already()) {
    const bool failed = job.state == JobState::kFailed && job.failure.has_value();
    const FailureKind kind = failed ? job.failure->exit.failure : FailureKind::kNone;
    finished_
        .Add({{"queue", counted.queue}, {"state", LabelOf(job.state)}, {"failure", LabelOf(kind)}})
        .Increment();
  }
  return true;
}

void QueueMetrics::Forget(const JobId& id) {
  const auto found = counted_.find(id);
  if (found == counted_.end()) return;
  JobsIn(found->second).Decrement();
  counted_.erase(found);
}

MembershipMetrics::MembershipMetrics(MetricRegistry& registry)
    : changes_(registry.NewCounters("paceline_job_membership_changes_total")),
      durations_(registry.NewHistograms("paceline_job_recovery_duration_seconds")) {
  for (const char* cause : {"failure", "planned"}) {
    changes_.Add({{"cause", cause}});
    durations_.Add({{"cause", cause}});
  }
}

void MembershipMetrics::Begin(const Job& job) {
  Counted& counted = counted_[job.request.id];
  for (const MembershipChange& change : job.recovery.history) {
    counted.begun = change.generation;
    if (change.ended != absl::InfinitePast()) counted.done = change.generation;
  }
}

void MembershipMetrics::Count(const Job& job) {
  if (job.recovery.history.empty()) return;
  Counted& counted = counted_[job.request.id];
  // A change that another one followed before it was done lasts until that one is done.
  absl::Time since = absl::InfiniteFuture();
  for (const MembershipChange& change : job.recovery.history) {
    since = std::min(since, change.begun);
    if (counted.begun < change.generation) {
      counted.begun = change.generation;
      changes_.Add({{"cause", CauseOf(change)}}).Increment();
    }
    if (change.ended == absl::InfinitePast()) continue;
    if (counted.done < change.generation) {
      counted.done = change.generation;
      durations_.Add({{"cause", CauseOf(change)}})
          .Observe(absl::ToDoubleSeconds(change.ended - since));
    }
    since = absl::InfiniteFuture();
  }
}

}  // namespace paceline
