#include "worker/daemon/metrics/trainer_checkpoint_metrics.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

struct Operation {
  const char* label;
  double (v1::CheckpointFigures::*seconds)() const;
};
constexpr Operation kOperations[] = {{"stage", &v1::CheckpointFigures::staging_s},
                                     {"blocked", &v1::CheckpointFigures::blocked_s},
                                     {"write", &v1::CheckpointFigures::write_s},
                                     {"commit", &v1::CheckpointFigures::committing_s},
                                     {"restore", &v1::CheckpointFigures::restore_s}};

struct Cause {
  const char* label;
  v1::SaveFailure failure;
};
constexpr Cause kCauses[] = {{"no_space", v1::SAVE_NO_SPACE},
                             {"no_permission", v1::SAVE_NO_PERMISSION},
                             {"io", v1::SAVE_IO},
                             {"not_agreed", v1::SAVE_NOT_AGREED},
                             {"inconsistent", v1::SAVE_INCONSISTENT},
                             {"nan", v1::SAVE_NAN}};

// Totals in the order of the series.
std::vector<double> Totals(const v1::CheckpointFigures& figures) {
  std::vector<double> totals;
  for (const Operation& operation : kOperations) {
    totals.push_back((figures.*operation.seconds)());
  }
  for (const int64_t count : {figures.saves(), figures.bytes(), figures.skipped()}) {
    totals.push_back(static_cast<double>(count));
  }
  for (const Cause& cause : kCauses) {
    const auto found = figures.failures().find(cause.failure);
    totals.push_back(found == figures.failures().end() ? 0 : static_cast<double>(found->second));
  }
  return totals;
}

}  // namespace

TrainerCheckpointMetrics::TrainerCheckpointMetrics(MetricRegistry& registry)
    : seconds_(registry.NewCounters("paceline_trainer_checkpoint_seconds_total")),
      saves_(registry.NewCounters("paceline_trainer_checkpoint_saves_total")),
      bytes_(registry.NewCounters("paceline_trainer_checkpoint_bytes_total")),
      skipped_(registry.NewCounters("paceline_trainer_checkpoint_skipped_total")),
      failures_(registry.NewCounters("paceline_trainer_checkpoint_failures_total")) {}

void TrainerCheckpointMetrics::Set(const TrainerId& id, const v1::CheckpointFigures& figures) {
  auto shown = shown_.find(id);
  if (shown == shown_.end()) shown = shown_.emplace(id, Add(id)).first;
  const std::vector<double> totals = Totals(figures);
  for (size_t i = 0; i < totals.size(); ++i) {
    RaiseTo(*shown->second[i].second, totals[i]);
  }
}

void TrainerCheckpointMetrics::Forget(const TrainerId& id) {
  const auto shown = shown_.find(id);
  if (shown == shown_.end()) return;
  for (const auto& [family, counter] : shown->second) family->Remove(counter);
  shown_.erase(shown);
}

std::vector<TrainerCheckpointMetrics::Series> TrainerCheckpointMetrics::Add(const TrainerId& id) {
  const prometheus::Labels labels = {{"job_id", id.job.value()},
                                     {"generation", absl::StrCat(id.generation.value())},
                                     {"rank", absl::StrCat(id.rank.value())}};
  std::vector<Series> series;
  for (const Operation& operation : kOperations) {
    prometheus::Labels with_operation = labels;
    with_operation["op"] = operation.label;
    series.emplace_back(&seconds_, &seconds_.Add(with_operation));
  }
  for (Counters* family : {&saves_, &bytes_, &skipped_}) {
    series.emplace_back(family, &family->Add(labels));
  }
  for (const Cause& cause : kCauses) {
    prometheus::Labels with_cause = labels;
    with_cause["cause"] = cause.label;
    series.emplace_back(&failures_, &failures_.Add(with_cause));
  }
  return series;
}

}  // namespace paceline
