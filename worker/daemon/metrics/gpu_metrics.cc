#include "worker/daemon/metrics/gpu_metrics.h"

#include <array>
#include <cstddef>

#include "absl/strings/str_cat.h"

namespace paceline {
namespace {

constexpr std::array<const char*, 8> kGauges = {"paceline_gpu_utilization_ratio",
                                                "paceline_gpu_memory_used_bytes",
                                                "paceline_gpu_memory_capacity_bytes",
                                                "paceline_gpu_temperature_celsius",
                                                "paceline_gpu_sm_clock_hertz",
                                                "paceline_gpu_throttled",
                                                "paceline_gpu_ecc_errors",
                                                "paceline_gpu_row_remap_failed"};

template <typename Value>
std::optional<double> Number(const std::optional<Value>& value) {
  return value.has_value() ? std::optional<double>(static_cast<double>(*value)) : std::nullopt;
}

// In the order of kGauges.
std::array<std::optional<double>, kGauges.size()> ValuesOf(const GpuFigures& gpu) {
  return {gpu.utilization,
          Number(gpu.memory_used),
          Number(gpu.memory_capacity),
          Number(gpu.celsius),
          gpu.sm_hertz,
          Number(gpu.throttled),
          Number(gpu.ecc_errors),
          Number(gpu.row_remap_failed)};
}

}  // namespace

GpuMetrics::GpuMetrics(MetricRegistry& registry)
    : energy_(registry.NewCounters("paceline_gpu_energy_joules_total")),
      last_read_(registry.NewGauges("paceline_gpu_last_read_timestamp_seconds")) {
  for (const char* name : kGauges) gauges_.push_back(&registry.NewGauges(name));
}

void GpuMetrics::Set(const std::vector<GpuFigures>& gpus, absl::Time now) {
  absl::MutexLock lock(&mutex_);
  for (const GpuFigures& gpu : gpus) {
    const prometheus::Labels labels = {{"gpu", absl::StrCat(gpu.index)}, {"uuid", gpu.uuid}};
    const auto values = ValuesOf(gpu);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i].has_value()) {
        gauges_[i]->Add(labels).Set(*values[i]);
      } else if (gauges_[i]->Has(labels)) {
        gauges_[i]->Remove(&gauges_[i]->Add(labels));
      }
    }
    if (gpu.joules.has_value()) RaiseTo(energy_.Add(labels), *gpu.joules);
  }
  last_read_.Add({}).Set(absl::ToDoubleSeconds(now - absl::UnixEpoch()));
}

}  // namespace paceline
