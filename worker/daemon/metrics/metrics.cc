#include "worker/daemon/metrics/metrics.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/daemon/metrics/metric_families.h"

namespace paceline {
namespace {

constexpr double kNanosPerSecond = 1e9;

// Returns "running" for TRAINER_RUNNING.
std::string Label(absl::string_view name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

std::string FailureLabel(v1::FailureKind kind) {
  if (kind == v1::FAILURE_KIND_UNSPECIFIED) return "none";
  return Label(v1::FailureKind_Name(kind), "FAILURE_");
}

prometheus::Labels LabelsOf(const TrainerId& id) {
  return {{"job_id", id.job.value()},
          {"generation", absl::StrCat(id.generation.value())},
          {"rank", absl::StrCat(id.rank.value())}};
}

}  // namespace

WorkerMetrics::WorkerMetrics(const std::string& version)
    : registry_(WorkerFamilies()),
      process_(registry_),
      certificate_ends_(registry_.NewGauges("paceline_certificate_expiry_timestamp_seconds")),
      connected_(registry_.NewGauges("paceline_worker_controller_connected").Add({})),
      reconnects_(registry_.NewCounters("paceline_worker_reconnects_total").Add({})),
      started_(registry_.NewCounters("paceline_worker_trainers_started_total").Add({})),
      adopted_(registry_.NewCounters("paceline_worker_trainers_adopted_total").Add({})),
      dropped_(registry_.NewCounters("paceline_worker_telemetry_dropped_total").Add({})),
      trainers_(registry_.NewGauges("paceline_worker_trainers")),
      ended_(registry_.NewCounters("paceline_worker_trainers_ended_total")),
      refused_(registry_.NewCounters("paceline_worker_trainer_connections_refused_total")),
      step_(registry_.NewGauges("paceline_trainer_step")),
      step_seconds_(registry_.NewGauges("paceline_trainer_step_seconds")),
      samples_(registry_.NewGauges("paceline_trainer_samples_per_second")),
      loss_(registry_.NewGauges("paceline_trainer_loss")),
      current_phase_(registry_.NewGauges("paceline_trainer_current_phase_seconds")),
      evaluated_(registry_.NewGauges("paceline_trainer_evaluated_ratio")),
      phases_(registry_.NewCounters("paceline_trainer_phase_seconds_total")) {
  registry_.NewGauges("paceline_build_info")
      .Add({{"component", "worker"}, {"version", version}})
      .Set(1);
  SetTrainers({});
  for (int kind = 0; kind < v1::FailureKind_ARRAYSIZE; ++kind) {
    ended_.Add({{"failure", FailureLabel(static_cast<v1::FailureKind>(kind))}});
  }
  for (const char* cause : {"user", "process"}) refused_.Add({{"cause", cause}});
}

void WorkerMetrics::ShowCertificateEnd(std::optional<absl::Time> end) {
  if (!end.has_value()) return;
  certificate_ends_.Add({}).Set(absl::ToDoubleSeconds(*end - absl::UnixEpoch()));
}

void WorkerMetrics::AddRefused(const std::string& cause) {
  refused_.Add({{"cause", cause}}).Increment();
}

void WorkerMetrics::SetConnected(bool connected, int64_t reconnects) {
  connected_.Set(connected ? 1 : 0);
  RaiseTo(reconnects_, static_cast<double>(reconnects));
}

void WorkerMetrics::SetTrainers(const std::map<v1::TrainerState, int>& by_state) {
  for (const v1::TrainerState state : {v1::TRAINER_STARTING, v1::TRAINER_READY, v1::TRAINER_RUNNING,
                                       v1::TRAINER_FINISHED, v1::TRAINER_EXITED}) {
    const auto found = by_state.find(state);
    trainers_.Add({{"state", Label(v1::TrainerState_Name(state), "TRAINER_")}})
        .Set(found == by_state.end() ? 0 : found->second);
  }
}

void WorkerMetrics::AddEnded(v1::FailureKind kind) {
  ended_.Add({{"failure", FailureLabel(kind)}}).Increment();
}

void WorkerMetrics::SetTrainer(const TrainerId& id, const v1::Progress& progress,
                               const std::array<uint64_t, kPhases>& phase_ns) {
  Trainer& trainer = TrainerOf(id);
  trainer.step->Set(static_cast<double>(progress.step()));
  trainer.samples->Set(progress.samples_per_s());
  if (progress.step_s() > 0) {  // It has finished a step.
    if (trainer.step_seconds == nullptr) {
      trainer.step_seconds = &step_seconds_.Add(LabelsOf(id));
    }
    trainer.step_seconds->Set(progress.step_s());
    // A loss of exactly 0 is not known, as of a watched script.
    if (trainer.loss == nullptr && progress.loss() != 0) trainer.loss = &loss_.Add(LabelsOf(id));
    if (trainer.loss != nullptr) trainer.loss->Set(progress.loss());
  }
  trainer.current_phase->Set(progress.phase_s());
  ShowEvaluation(id, progress, trainer);
  for (size_t i = 0; i < phase_ns.size(); ++i) {
    RaiseTo(*trainer.phases[i], static_cast<double>(phase_ns[i]) / kNanosPerSecond);
  }
}

void WorkerMetrics::ShowEvaluation(const TrainerId& id, const v1::Progress& progress,
                                   Trainer& trainer) {
  if (progress.phase() != v1::EVALUATING) {
    evaluated_.Remove(trainer.evaluated);
    trainer.evaluated = nullptr;
    return;
  }
  if (trainer.evaluated == nullptr) trainer.evaluated = &evaluated_.Add(LabelsOf(id));
  const double all = static_cast<double>(progress.evaluation_batches());
  trainer.evaluated->Set(all > 0 ? static_cast<double>(progress.evaluated_batches()) / all : 1);
}

void WorkerMetrics::ForgetTrainer(const TrainerId& id) {
  figures_.Forget(id);
  checkpoints_.Forget(id);
  const auto found = shown_.find(id);
  if (found == shown_.end()) return;
  const Trainer& trainer = found->second;
  step_.Remove(trainer.step);
  samples_.Remove(trainer.samples);
  current_phase_.Remove(trainer.current_phase);
  // Remove ignores null.
  step_seconds_.Remove(trainer.step_seconds);
  loss_.Remove(trainer.loss);
  evaluated_.Remove(trainer.evaluated);
  for (prometheus::Counter* phase : trainer.phases) phases_.Remove(phase);
  shown_.erase(found);
}

std::string WorkerMetrics::Text() {
  process_.Read();
  return registry_.Text();
}

WorkerMetrics::Trainer& WorkerMetrics::TrainerOf(const TrainerId& id) {
  const auto found = shown_.find(id);
  if (found != shown_.end()) return found->second;
  const prometheus::Labels labels = LabelsOf(id);
  Trainer trainer{&step_.Add(labels), &samples_.Add(labels), &current_phase_.Add(labels), {}};
  for (int i = 0; i < kPhases; ++i) {
    prometheus::Labels with_phase = labels;
    with_phase["phase"] = PhaseName(static_cast<Phase>(i));
    trainer.phases[i] = &phases_.Add(with_phase);
  }
  return shown_.emplace(id, trainer).first->second;
}

}  // namespace paceline
