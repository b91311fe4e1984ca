#include "worker/trainer/report/progress_report.h"

#include <ATen/Context.h>
#include <torch/version.h>

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/core/device_peak.h"
#include "worker/trainer/core/model_flops.h"
#include "worker/trainer/telemetry/host_memory.h"

namespace paceline {
namespace {

// By torch's settings.
Tf32Use Tf32OfTorch() {
#if TORCH_VERSION_MAJOR > 2 || TORCH_VERSION_MINOR >= 10
  const auto in = [](at::Float32Op op) {
    return at::globalContext().float32Precision(at::Float32Backend::CUDA, op) ==
           at::Float32Precision::TF32;
  };
  return {in(at::Float32Op::MATMUL), in(at::Float32Op::CONV)};
#else
  const auto in = [](const char* op) {
    return at::globalContext().float32Precision("cuda", op) == "tf32";
  };
  return {in("matmul"), in("conv")};
#endif
}

struct ModelCost {
  Flops per_sample;
  FlopsSource source = FlopsSource::kUnknown;
};

ModelCost CostOf(const TrainerConfig& config, const ModelTensors& model) {
  const Flops formula = model.FlopsPerSample();
  ModelCost cost{formula, FlopsSource::kFormula};
  if (config.flops_per_sample > 0) {
    cost.source = FlopsSource::kGiven;
    if (formula.total() > 0) {
      cost.per_sample = formula * (config.flops_per_sample / formula.total());
    } else {  // Nobody has seen in which formats.
      cost.per_sample = Flops();
      cost.per_sample.other = config.flops_per_sample;
    }
  } else if (formula.total() == 0) {
    const Flops& counted = model.counted_flops();
    return {counted, counted.total() > 0 ? FlopsSource::kCounted : FlopsSource::kUnknown};
  }
  if (config.bf16) {
    const double all = cost.per_sample.total();
    cost.per_sample = Flops();
    cost.per_sample.half = all;
  }
  return cost;
}

}  // namespace

void ProgressReport::BeforeStep() {
  if (std::exchange(begun_, true)) return;
  if (std::exchange(parts_.has_begun, true)) {
    parts_.platform.ResetMemoryPeaks();
  } else {
    parts_.platform.StartMemoryFigures();
  }
}

Interval::Cost ProgressReport::Cost() const {
  const ModelCost model = CostOf(parts_.config, parts_.model);
  Interval::Cost cost{model.per_sample.total(), model.source, std::nullopt};
  if (parts_.config.peak_flops > 0) {
    cost.peak_flops = parts_.config.peak_flops;
  } else if (const auto peaks = PeaksOfDevice(parts_.platform.DeviceName())) {
    cost.peak_flops = PeakFlops(*peaks, model.per_sample, Tf32OfTorch());
  }
  return cost;
}

void ProgressReport::ExplainNoMfu(const Interval::Cost& cost) {
  if (!parts_.config.cuda || std::exchange(explained_, true)) return;
  if (cost.source == FlopsSource::kUnknown) {
    PACELINE_LOG(WARNING) << "no MFU: the model's FLOPs are neither counted nor given; give "
                             "flops_per_sample in the job file";
  } else if (!cost.peak_flops.has_value()) {
    PACELINE_LOG(WARNING) << "no MFU: the peak of " << parts_.platform.DeviceName()
                          << " in the model's number formats is not known; give peak_flops in the "
                             "job file";
  } else {
    PACELINE_LOG(WARNING) << "no MFU: " << cost.flops_per_sample
                          << " operations per sample would be more than the device's peak of "
                          << *cost.peak_flops
                          << " per second; check flops_per_sample and peak_flops in the job file";
  }
}

void ProgressReport::Expect(at::Tensor mean_loss, int gradient_group_size, bool ends_interval) {
  expected_.push_back(
      {std::move(norms_), std::move(mean_loss), gradient_group_size, ends_interval});
}

absl::Status ProgressReport::Publish(const std::vector<StepRecord>& records) {
  for (const StepRecord& record : records) {
    const Expected expected = std::move(expected_.front());
    expected_.pop_front();
    if (expected.mean_loss.defined()) mean_loss_ = expected.mean_loss.item<double>();
    CountCommunication(record, expected.gradient_group_size);
    const bool taken = std::isfinite(record.grad_norm);
    interval_.Add(record, taken || parts_.config.on_nonfinite == NonFinite::kIgnore);
    if (!taken || !std::isfinite(record.loss)) {
      PACELINE_RETURN_IF_ERROR(Judge(record, expected));
    }
    if (expected.ends_interval) EndInterval();
  }
  return absl::OkStatus();
}

std::string ProgressReport::FirstNotFinite(const at::Tensor& norms) const {
  if (!norms.defined()) return "";  // Of a step that was completed at a rendezvous.
  const at::Tensor host = norms.cpu();
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (!std::isfinite(host[i].item<float>())) {
      return parts_.model.parameters()[static_cast<size_t>(i)].name;
    }
  }
  return "";
}

absl::Status ProgressReport::Judge(const StepRecord& record, const Expected& expected) {
  const std::string parameter = FirstNotFinite(expected.norms);
  const std::string what = absl::StrCat(
      "step ", record.step, " (from 0) of rank ", parts_.config.rank(), ": the loss is ",
      record.loss, " and ",
      parameter.empty()
          ? "all gradients are finite"
          : absl::StrCat("the first gradient that is not finite is that of ", parameter));
  switch (parts_.config.on_nonfinite) {
    case NonFinite::kSkip:
      PACELINE_LOG(WARNING) << (parameter.empty() ? "took " : "skipped ") << what;
      return absl::OkStatus();
    case NonFinite::kIgnore:
      if (!std::exchange(warned_, true)) {
        PACELINE_LOG(WARNING) << what << ": the training has diverged; try a smaller learning rate";
      }
      return absl::OkStatus();
    case NonFinite::kStop:
      break;
  }
  if (std::isfinite(record.loss) && expected.gradient_group_size > 1) {
    return absl::UnavailableError(
        absl::StrCat(what, ", the mean over ", expected.gradient_group_size,
                     " ranks: one of them had a loss that is not, or its gradient overflowed"));
  }
  return absl::InternalError(
      absl::StrCat(what, parameter.empty() ? "" : "; the parameters are as before it",
                   ". Try a smaller learning rate or clip_grad_norm; on_nonfinite: skip leaves "
                   "such steps out"));
}

void ProgressReport::CountCommunication(const StepRecord& record, int gradient_group_size) {
  const auto seconds = [&](Phase phase) {
    return static_cast<double>(record.phase_ns[static_cast<size_t>(phase)]) * 1e-9;
  };
  if (gradient_group_size > 1) {
    parts_.communication.gradients[gradient_group_size] += seconds(Phase::kCommunication);
  }
  if (record.averaging_group_size > 1) {
    parts_.communication.parameters[static_cast<int>(record.averaging_group_size)] +=
        seconds(Phase::kAveraging);
  }
}

void ProgressReport::EndInterval() {
  const Interval::Cost cost = Cost();
  RankFigures figures = interval_.End(cost);
  if (!figures.mfu.has_value() && figures.samples_per_s > 0) ExplainNoMfu(cost);
  training_seconds_ += figures.wall_s;
  if (mean_loss_.has_value()) figures.loss = *mean_loss_;
  figures.memory = Memory(training_seconds_);
  figures.reported = parts_.reported;
  const double speed = parts_.add_figures(&figures);
  for (LevelFigures& level : figures.levels) {
    level.seconds = (level.gradients ? parts_.communication.gradients
                                     : parts_.communication.parameters)[level.group_size];
  }
  parts_.control.SetFigures(figures);

  const StepRecord& last = interval_.last();
  std::string line = absl::StrFormat("step=%d loss=%.9g", figures.step, last.loss);
  if (mean_loss_) absl::StrAppendFormat(&line, " mean_loss=%.9g", *mean_loss_);
  absl::StrAppendFormat(&line, " lr=%.9g samples_per_s=%.1f grad_norm=%.6g", figures.learning_rate,
                        figures.samples_per_s * speed, last.grad_norm);
  if (figures.tokens_per_s > 0) {
    absl::StrAppendFormat(&line, " tokens_per_s=%.1f", figures.tokens_per_s * speed);
  }
  if (figures.mfu) absl::StrAppendFormat(&line, " mfu=%.4f", *figures.mfu);
  PACELINE_LOG(INFO) << line;
}

MemoryFigures ProgressReport::Memory(double seconds) {
  const HostMemory host = ReadHostMemory();
  ResetRssPeak();
  rss_trend_.Add(seconds, static_cast<double>(host.rss));
  MemoryFigures figures;
  figures.rss = host.rss;
  figures.rss_peak = host.rss_peak;
  figures.rss_slope = rss_trend_.Slope();
  figures.device = parts_.platform.Memory();
  parts_.platform.ResetMemoryPeaks();
  return figures;
}

}  // namespace paceline
