#include "worker/daemon/metrics.h"

#include <prometheus/text_serializer.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "worker/daemon/metric_names.h"

namespace paceline {
namespace {

constexpr double kNanosPerSecond = 1e9;

prometheus::Family<prometheus::Gauge>& NewGauges(prometheus::Registry& registry,
                                                 MetricName metric) {
  return prometheus::BuildGauge().Name(metric.name).Help(metric.help).Register(registry);
}

prometheus::Family<prometheus::Counter>& NewCounters(prometheus::Registry& registry,
                                                     MetricName metric) {
  return prometheus::BuildCounter().Name(metric.name).Help(metric.help).Register(registry);
}

// "running" of TRAINER_RUNNING.
std::string Label(absl::string_view name, absl::string_view prefix) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, prefix));
}

// Raises a counter to a total that was counted elsewhere.
void RaiseTo(prometheus::Counter& counter, double total) {
  if (total > counter.Value()) counter.Increment(total - counter.Value());
}

}  // namespace

WorkerMetrics::WorkerMetrics(const std::string& node, const std::string& version)
    : connected_(NewGauges(registry_, kMetricConnected).Add({})),
      reconnects_(NewCounters(registry_, kMetricReconnects).Add({})),
      adopted_(NewCounters(registry_, kMetricAdopted).Add({})),
      dropped_(NewCounters(registry_, kMetricDropped).Add({})),
      trainers_(NewGauges(registry_, kMetricTrainers)),
      ended_(NewCounters(registry_, kMetricEnded)),
      step_(NewGauges(registry_, kMetricStep)),
      step_seconds_(NewGauges(registry_, kMetricStepSeconds)),
      samples_(NewGauges(registry_, kMetricSamples)),
      loss_(NewGauges(registry_, kMetricLoss)),
      current_phase_(NewGauges(registry_, kMetricCurrentPhaseSeconds)),
      phases_(NewCounters(registry_, kMetricPhaseSeconds)) {
  NewGauges(registry_, kMetricInfo)
      .Add({{"component", "worker"}, {"node", node}, {"version", version}})
      .Set(1);
  SetTrainers({});
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
  const std::string label =
      kind == v1::FAILURE_KIND_UNSPECIFIED ? "none" : Label(v1::FailureKind_Name(kind), "FAILURE_");
  ended_.Add({{"failure", label}}).Increment();
}

void WorkerMetrics::SetTrainer(const TrainerId& id, const v1::Progress& progress,
                               const std::array<uint64_t, kPhases>& phase_ns) {
  Trainer& trainer = TrainerOf(id);
  trainer.step->Set(static_cast<double>(progress.step()));
  trainer.step_seconds->Set(progress.step_s());
  trainer.samples->Set(progress.samples_per_s());
  trainer.loss->Set(progress.loss());
  trainer.current_phase->Set(progress.phase_s());
  for (size_t i = 0; i < phase_ns.size(); ++i) {
    RaiseTo(*trainer.phases[i], static_cast<double>(phase_ns[i]) / kNanosPerSecond);
  }
}

void WorkerMetrics::ForgetTrainer(const TrainerId& id) {
  figures_.Forget(id);
  checkpoints_.Forget(id);
  const auto found = shown_.find(id);
  if (found == shown_.end()) return;
  const Trainer& trainer = found->second;
  step_.Remove(trainer.step);
  step_seconds_.Remove(trainer.step_seconds);
  samples_.Remove(trainer.samples);
  loss_.Remove(trainer.loss);
  current_phase_.Remove(trainer.current_phase);
  for (prometheus::Counter* phase : trainer.phases) phases_.Remove(phase);
  shown_.erase(found);
}

std::string WorkerMetrics::Text() const {
  return prometheus::TextSerializer().Serialize(registry_.Collect());
}

WorkerMetrics::Trainer& WorkerMetrics::TrainerOf(const TrainerId& id) {
  const auto found = shown_.find(id);
  if (found != shown_.end()) return found->second;
  const prometheus::Labels labels = {{"job_id", id.job.value()},
                                     {"generation", absl::StrCat(id.generation.value())},
                                     {"rank", absl::StrCat(id.rank.value())}};
  Trainer trainer{&step_.Add(labels), &step_seconds_.Add(labels),  &samples_.Add(labels),
                  &loss_.Add(labels), &current_phase_.Add(labels), {}};
  for (int i = 0; i < kPhases; ++i) {
    prometheus::Labels with_phase = labels;
    with_phase["phase"] = PhaseName(static_cast<Phase>(i));
    trainer.phases[i] = &phases_.Add(with_phase);
  }
  return shown_.emplace(id, trainer).first->second;
}

}  // namespace paceline
