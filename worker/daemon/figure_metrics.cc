#include "worker/daemon/figure_metrics.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "common/job_spec/enum_name.h"
#include "worker/daemon/metric_names.h"

namespace paceline {
namespace {

struct Figure {
  MetricName metric;
  std::optional<double> value;  // Unset: not known.
};

template <typename Number>
std::optional<double> If(bool known, Number value) {
  return known && !std::isnan(static_cast<double>(value)) ? std::optional<double>(value)
                                                          : std::nullopt;
}

// Always the same metrics in the same order.
std::vector<Figure> GaugesOf(const v1::RankFigures& figures, const v1::PlanStatus& plan) {
  const bool known = figures.steps() > 0;
  const v1::MemoryFigures& memory = figures.memory();
  const v1::SlipstreamFigures& slipstream = figures.slipstream();
  const bool rounds = slipstream.rounds() > 0;
  return {
      {kMetricTokens, If(figures.tokens_per_s() > 0, figures.tokens_per_s())},
      {kMetricMfu, If(figures.has_mfu(), figures.mfu())},
      {kMetricMfuWall, If(figures.has_mfu_wall(), figures.mfu_wall())},
      {kMetricMeanLoss, If(known, figures.loss())},
      {kMetricGradNorm, If(known, figures.grad_norm())},
      {kMetricLearningRate, If(known, figures.learning_rate())},
      {kMetricDataWait, If(known, figures.data_wait_share())},
      {kMetricDrift, If(figures.drift() > 0, figures.drift())},
      {kMetricPlanEpoch, If(plan.active_epoch() > 0, plan.active_epoch())},
      {kMetricRss, If(memory.rss() > 0, memory.rss())},
      {kMetricRssPeak, If(memory.rss_peak() > 0, memory.rss_peak())},
      {kMetricRssSlope, If(memory.rss() > 0, memory.rss_slope())},
      {kMetricActive, If(memory.has_active(), memory.active())},
      {kMetricActivePeak, If(memory.has_active_peak(), memory.active_peak())},
      {kMetricReserved, If(memory.has_reserved(), memory.reserved())},
      {kMetricReservedPeak, If(memory.has_reserved_peak(), memory.reserved_peak())},
      {kMetricSmallPool, If(memory.has_small_pool(), memory.small_pool())},
      {kMetricLargePool, If(memory.has_large_pool(), memory.large_pool())},
      {kMetricCapacity, If(memory.has_capacity(), memory.capacity())},
      {kMetricSlipstreamWindow, If(rounds, slipstream.window_s())},
      {kMetricSlipstreamCap, If(rounds, slipstream.cap())},
      {kMetricSlipstreamDrift, If(rounds, slipstream.drift())},
  };
}

std::vector<Figure> CountersOf(const v1::RankFigures& figures) {
  const v1::MemoryFigures& memory = figures.memory();
  const v1::SlipstreamFigures& slipstream = figures.slipstream();
  const bool known = figures.has_slipstream();
  return {
      {kMetricSkipped, If(figures.steps() > 0, figures.skipped_steps())},
      {kMetricAllocRetries, If(memory.has_alloc_retries(), memory.alloc_retries())},
      {kMetricOoms, If(memory.has_ooms(), memory.ooms())},
      {kMetricSlipstreamRounds, If(known, slipstream.rounds())},
      {kMetricSlipstreamContributingRanks, If(known, slipstream.contributing_ranks())},
      {kMetricSlipstreamContributions, If(known, slipstream.contributions())},
      {kMetricSlipstreamStaleRounds, If(known, slipstream.stale_rounds())},
      {kMetricSlipstreamSteps, If(known, slipstream.steps())},
      {kMetricSlipstreamSentUpdates, If(known, slipstream.sent_updates())},
      {kMetricSlipstreamLostUpdates, If(known, slipstream.lost_updates())},
      {kMetricSlipstreamUsedGradients, If(known, slipstream.used_gradients())},
      {kMetricSlipstreamDroppedGradients, If(known, slipstream.dropped_gradients())},
      {kMetricSlipstreamCapWait, If(known, slipstream.cap_wait_s())},
      {kMetricSlipstreamRoundWait, If(known, slipstream.round_wait_s())},
      {kMetricSlipstreamCollective, If(known, slipstream.collective_s())},
  };
}

prometheus::Family<prometheus::Counter>& NewCounters(prometheus::Registry& registry,
                                                     MetricName metric) {
  return prometheus::BuildCounter().Name(metric.name).Help(metric.help).Register(registry);
}

prometheus::Family<prometheus::Gauge>& NewGauges(prometheus::Registry& registry,
                                                 MetricName metric) {
  return prometheus::BuildGauge().Name(metric.name).Help(metric.help).Register(registry);
}

void RaiseTo(prometheus::Counter& counter, double total) {
  if (total > counter.Value()) counter.Increment(total - counter.Value());
}

}  // namespace

FigureMetrics::FigureMetrics(prometheus::Registry& registry)
    : seconds_(NewCounters(registry, kMetricCommunicationSeconds)),
      bytes_(NewCounters(registry, kMetricCommunicationBytes)),
      count_(NewCounters(registry, kMetricCommunications)),
      modes_(NewGauges(registry, kMetricSlipstreamMode)) {
  for (const Figure& figure : GaugesOf({}, {})) {
    gauges_.push_back(&NewGauges(registry, figure.metric));
  }
  for (const Figure& figure : CountersOf({})) {
    counters_.push_back(&NewCounters(registry, figure.metric));
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
  SetMode(trainer, figures.slipstream().mode());
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
  if (trainer.mode_gauge != nullptr) modes_.Remove(trainer.mode_gauge);
  shown_.erase(found);
}

}  // namespace paceline
