#include "worker/trainer/telemetry/interval.h"

#include "worker/trainer/core/device_peak.h"

namespace paceline {

void Interval::Add(const StepRecord& record, bool productive) {
  if (began_ns_ == 0) began_ns_ = record.start_ns;
  ++steps_;
  samples_ += record.samples;
  tokens_ += record.tokens;
  costing_ += costs_workload_ ? record.workload : static_cast<double>(record.samples);
  training_ns_ += record.total_ns;
  data_wait_ns_ += record.phase_ns[static_cast<size_t>(Phase::kDataWait)];
  if (!productive) ++skipped_;
  last_ = record;
}

RankFigures Interval::End(const Cost& cost) {
  const uint64_t end_ns = last_.start_ns + last_.total_ns;
  RankFigures figures;
  figures.step = static_cast<int64_t>(last_.step) + 1;
  figures.steps = steps_;
  figures.training_s = static_cast<double>(training_ns_) * 1e-9;
  figures.wall_s = static_cast<double>(end_ns - began_ns_) * 1e-9;
  figures.loss = last_.loss;
  figures.grad_norm = last_.grad_norm;
  figures.learning_rate = last_.learning_rate;
  figures.samples_per_s = static_cast<double>(samples_) / figures.training_s;
  figures.tokens_per_s = static_cast<double>(tokens_) / figures.training_s;
  figures.data_wait_share = static_cast<double>(data_wait_ns_) / static_cast<double>(training_ns_);
  figures.skipped_steps = skipped_;
  if (cost.flops_per_sample > 0) {
    const double flops = cost.flops_per_sample * costing_;
    figures.flops_per_sample = cost.flops_per_sample;
    figures.flops_source = cost.source;
    figures.flops_per_s = flops / figures.training_s;
    if (cost.peak_flops.has_value()) {
      figures.peak_flops = *cost.peak_flops;
      figures.mfu = Mfu(flops, figures.training_s, *cost.peak_flops);
      figures.mfu_wall = Mfu(flops, figures.wall_s, *cost.peak_flops);
    }
  }
  began_ns_ = end_ns;
  steps_ = 0;
  samples_ = tokens_ = training_ns_ = data_wait_ns_ = 0;
  costing_ = 0;
  return figures;
}

}  // namespace paceline
