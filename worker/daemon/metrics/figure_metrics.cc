#include "worker/daemon/metrics/figure_metrics.h"

#include <cmath>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/job_spec/enum_name.h"

namespace paceline {
namespace {

// Most series of what a trainer's script reports: as many names as run.report allows.
constexpr size_t kMostReported = 32;

struct Figure {
  const char* metric;
  std::optional<double> value;  // Unset: unknown.
};

template <typename Number>
std::optional<double> If(bool known, Number value) {
  return known && !std::isnan(static_cast<double>(value)) ? std::optional<double>(value)
                                                          : std::nullopt;
}

// Returns the same metrics in the same order each time.
std::vector<Figure> GaugesOf(const v1::RankFigures& figures, const v1::PlanStatus& plan) {
  const bool known = figures.steps() > 0;
  const v1::MemoryFigures& memory = figures.memory();
  const v1::SlipstreamFigures& slipstream = figures.slipstream();
  const bool rounds = slipstream.rounds() > 0;
  return {
      {"paceline_trainer_tokens_per_second",
       If(figures.tokens_per_s() > 0, figures.tokens_per_s())},
      {"paceline_trainer_mfu_ratio", If(figures.has_mfu(), figures.mfu())},
      {"paceline_trainer_mfu_wall_ratio", If(figures.has_mfu_wall(), figures.mfu_wall())},
      {"paceline_trainer_peak_flops_per_second",
       If(figures.peak_flops() > 0, figures.peak_flops())},
      {"paceline_trainer_mean_loss", If(known, figures.loss())},
      {"paceline_trainer_grad_norm", If(known, figures.grad_norm())},
      {"paceline_trainer_learning_rate", If(known, figures.learning_rate())},
      {"paceline_trainer_data_wait_ratio", If(known, figures.data_wait_share())},
      {"paceline_trainer_drift", If(figures.drift() > 0, figures.drift())},
      {"paceline_trainer_plan_version", If(plan.active_version() > 0, plan.active_version())},
      {"paceline_trainer_memory_rss_bytes", If(memory.rss() > 0, memory.rss())},
      {"paceline_trainer_memory_rss_peak_bytes", If(memory.rss_peak() > 0, memory.rss_peak())},
      {"paceline_trainer_memory_rss_slope_bytes_per_second",
       If(memory.rss() > 0, memory.rss_slope())},
      {"paceline_trainer_memory_active_bytes", If(memory.has_active(), memory.active())},
      {"paceline_trainer_memory_active_peak_bytes",
       If(memory.has_active_peak(), memory.active_peak())},
      {"paceline_trainer_memory_reserved_bytes", If(memory.has_reserved(), memory.reserved())},
      {"paceline_trainer_memory_reserved_peak_bytes",
       If(memory.has_reserved_peak(), memory.reserved_peak())},
      {"paceline_trainer_memory_small_pool_bytes",
       If(memory.has_small_pool(), memory.small_pool())},
      {"paceline_trainer_memory_large_pool_bytes",
       If(memory.has_large_pool(), memory.large_pool())},
      {"paceline_trainer_memory_small_pool_peak_bytes",
       If(memory.has_small_pool_peak(), memory.small_pool_peak())},
      {"paceline_trainer_memory_large_pool_peak_bytes",
       If(memory.has_large_pool_peak(), memory.large_pool_peak())},
      {"paceline_trainer_memory_capacity_bytes", If(memory.has_capacity(), memory.capacity())},
      {"paceline_slipstream_window_seconds", If(rounds, slipstream.window_s())},
      {"paceline_slipstream_cap_steps", If(rounds, slipstream.cap())},
      {"paceline_slipstream_drift", If(rounds, slipstream.drift())},
  };
}

std::vector<Figure> CountersOf(const v1::RankFigures& figures) {
  const v1::MemoryFigures& memory = figures.memory();
  const v1::SlipstreamFigures& slipstream = figures.slipstream();
  const bool known = figures.has_slipstream();
  const v1::ObjectFigures& objects = figures.objects();
  const bool reads_objects = figures.has_objects();
  return {
      {"paceline_trainer_skipped_steps_total", If(figures.steps() > 0, figures.skipped_steps())},
      {"paceline_trainer_alloc_retries_total",
       If(memory.has_alloc_retries(), memory.alloc_retries())},
      {"paceline_trainer_ooms_total", If(memory.has_ooms(), memory.ooms())},
      {"paceline_trainer_object_fetched_bytes_total", If(reads_objects, objects.fetched_bytes())},
      {"paceline_trainer_object_retries_total", If(reads_objects, objects.retries())},
      {"paceline_trainer_object_cached_reads_total", If(reads_objects, objects.cached_reads())},
      {"paceline_trainer_object_waited_reads_total", If(reads_objects, objects.waited_reads())},
      {"paceline_trainer_object_wait_seconds_total", If(reads_objects, objects.wait_s())},
      {"paceline_slipstream_rounds_total", If(known, slipstream.rounds())},
      {"paceline_slipstream_contributing_ranks_total", If(known, slipstream.contributing_ranks())},
      {"paceline_slipstream_contributions_total", If(known, slipstream.contributions())},
      {"paceline_slipstream_stale_rounds_total", If(known, slipstream.stale_rounds())},
      {"paceline_slipstream_steps_total", If(known, slipstream.steps())},
      {"paceline_slipstream_sent_updates_total", If(known, slipstream.sent_updates())},
      {"paceline_slipstream_lost_updates_total", If(known, slipstream.lost_updates())},
      {"paceline_slipstream_used_gradients_total", If(known, slipstream.used_gradients())},
      {"paceline_slipstream_dropped_gradients_total", If(known, slipstream.dropped_gradients())},
      {"paceline_slipstream_cap_wait_seconds_total", If(known, slipstream.cap_wait_s())},
      {"paceline_slipstream_round_wait_seconds_total", If(known, slipstream.round_wait_s())},
      {"paceline_slipstream_collective_seconds_total", If(known, slipstream.collective_s())},
  };
}

}  // namespace

FigureMetrics::FigureMetrics(MetricRegistry& registry)
    : seconds_(registry.NewCounters("paceline_trainer_communication_seconds_total")),
      bytes_(registry.NewCounters("paceline_trainer_communication_bytes_total")),
      count_(registry.NewCounters("paceline_trainer_communications_total")),
      flops_(registry.NewGauges("paceline_trainer_flops_per_second")),
      modes_(registry.NewGauges("paceline_slipstream_mode")),
      reported_(registry.NewGauges("paceline_trainer_reported")) {
  for (const Figure& figure : GaugesOf({}, {})) {
    gauges_.push_back(&registry.NewGauges(figure.metric));
  }
  for (const Figure& figure : CountersOf({})) {
    counters_.push_back(&registry.NewCounters(figure.metric));
  }
}

void FigureMetrics::Set(const TrainerId& id, const v1::RankFigures& figures,
                        const v1::PlanStatus& plan) {
  const auto [found, added] = shown_.try_emplace(id);
  Trainer& trainer = found->second;
  if (added) {
    trainer.labels = {{"job_id", id.job.value()},
                      {"generation", absl::StrCat(id.generation.value())},
                      {"rank", absl::StrCat(id.rank.value())}};
    trainer.gauges.resize(gauges_.size());
    trainer.counters.resize(counters_.size());
  }
  const std::vector<Figure> gauges = GaugesOf(figures, plan);
  for (size_t i = 0; i < gauges.size(); ++i) {
    prometheus::Gauge*& gauge = trainer.gauges[i];
    if (gauges[i].value.has_value()) {
      if (gauge == nullptr) gauge = &gauges_[i]->Add(trainer.labels);
      gauge->Set(*gauges[i].value);
    } else if (gauge != nullptr) {
      gauges_[i]->Remove(gauge);
      gauge = nullptr;
    }
  }
  const std::vector<Figure> counters = CountersOf(figures);
  for (size_t i = 0; i < counters.size(); ++i) {
    if (!counters[i].value.has_value()) continue;
    prometheus::Counter*& counter = trainer.counters[i];
    if (counter == nullptr) counter = &counters_[i]->Add(trainer.labels);
    RaiseTo(*counter, *counters[i].value);
  }
  for (const v1::LevelFigures& level : figures.levels()) SetLevel(trainer, level);
  SetFlops(trainer, figures);
  SetMode(trainer, figures.slipstream().mode());
  SetReported(trainer, figures);
}

void FigureMetrics::SetFlops(Trainer& trainer, const v1::RankFigures& figures) {
  const v1::FlopsSource source = figures.flops_source();
  if (source != trainer.flops_source) {
    if (trainer.flops_gauge != nullptr) flops_.Remove(trainer.flops_gauge);
    trainer.flops_source = source;
    trainer.flops_gauge = nullptr;
    if (source != v1::FLOPS_SOURCE_UNSPECIFIED) {
      prometheus::Labels labels = trainer.labels;
      labels["source"] = EnumName(*v1::FlopsSource_descriptor(), source);
      trainer.flops_gauge = &flops_.Add(labels);
    }
  }
  if (trainer.flops_gauge != nullptr) trainer.flops_gauge->Set(figures.flops_per_s());
}

void FigureMetrics::SetMode(Trainer& trainer, v1::SlipstreamMode mode) {
  if (mode == trainer.mode) return;
  if (trainer.mode_gauge != nullptr) modes_.Remove(trainer.mode_gauge);
  trainer.mode = mode;
  trainer.mode_gauge = nullptr;
  if (mode == v1::SLIPSTREAM_UNSPECIFIED) return;
  prometheus::Labels labels = trainer.labels;
  labels["mode"] = EnumName(*v1::SlipstreamMode_descriptor(), mode);
  trainer.mode_gauge = &modes_.Add(labels);
  trainer.mode_gauge->Set(1);
}

void FigureMetrics::SetReported(Trainer& trainer, const v1::RankFigures& figures) {
  std::map<std::string, double> numbers;
  for (const v1::ReportedNumber& number : figures.reported()) {
    if (numbers.size() < kMostReported) numbers[number.name()] = number.value();
  }
  for (auto shown = trainer.reported.begin(); shown != trainer.reported.end();) {
    if (numbers.count(shown->first) == 0) {
      reported_.Remove(shown->second);
      shown = trainer.reported.erase(shown);
    } else {
      ++shown;
    }
  }
  for (const auto& [name, value] : numbers) {
    prometheus::Gauge*& gauge = trainer.reported[name];
    if (gauge == nullptr) {
      prometheus::Labels labels = trainer.labels;
      labels["name"] = name;
      gauge = &reported_.Add(labels);
    }
    gauge->Set(value);
  }
}

void FigureMetrics::SetLevel(Trainer& trainer, const v1::LevelFigures& level) {
  const auto [found, added] = trainer.levels.try_emplace({level.group_size(), level.gradients()});
  Level& shown = found->second;
  if (added) {
    prometheus::Labels labels = trainer.labels;
    labels["group_size"] = absl::StrCat(level.group_size());
    labels["kind"] = level.gradients() ? "gradients" : "parameters";
    shown = {&seconds_.Add(labels), &bytes_.Add(labels), &count_.Add(labels)};
  }
  RaiseTo(*shown.seconds, level.seconds());
  RaiseTo(*shown.bytes, static_cast<double>(level.bytes()));
  RaiseTo(*shown.count, static_cast<double>(level.count()));
}

void FigureMetrics::Forget(const TrainerId& id) {
  const auto found = shown_.find(id);
  if (found == shown_.end()) return;
  const Trainer& trainer = found->second;
  for (size_t i = 0; i < gauges_.size(); ++i) {
    if (trainer.gauges[i] != nullptr) gauges_[i]->Remove(trainer.gauges[i]);
  }
  for (size_t i = 0; i < counters_.size(); ++i) {
    if (trainer.counters[i] != nullptr) counters_[i]->Remove(trainer.counters[i]);
  }
  for (const auto& [key, level] : trainer.levels) {
    seconds_.Remove(level.seconds);
    bytes_.Remove(level.bytes);
    count_.Remove(level.count);
  }
  if (trainer.flops_gauge != nullptr) flops_.Remove(trainer.flops_gauge);
  if (trainer.mode_gauge != nullptr) modes_.Remove(trainer.mode_gauge);
  for (const auto& [name, gauge] : trainer.reported) reported_.Remove(gauge);
  shown_.erase(found);
}

}  // namespace paceline
