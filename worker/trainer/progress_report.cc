#include "worker/trainer/progress_report.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/core/status_macros.h"
#include "common/log.h"
#include "worker/trainer/core/device_peak.h"
#include "worker/trainer/core/lr_schedule.h"
#include "worker/trainer/telemetry/host_memory.h"

namespace paceline {
namespace {

// Intervals over which the growth of the memory is judged.
constexpr size_t kTrendIntervals = 32;

// The peaks of the table are those of bfloat16; another one has to be given.
std::optional<double> PeakFlops(const TrainerConfig& config, const Platform& platform) {
  if (config.peak_flops > 0) return config.peak_flops;
  if (!config.bf16) return std::nullopt;
  return DevicePeakFlops(platform.DeviceName());
}

Interval::Options IntervalOptions(const ProgressReport::Parts& parts) {
  return {parts.model.FlopsPerSample(), PeakFlops(parts.config, parts.platform)};
}

}  // namespace

ProgressReport::ProgressReport(const Parts& parts)
    : parts_(parts), interval_(IntervalOptions(parts)), rss_trend_(kTrendIntervals) {
  if (parts.config.cuda && parts.config.bf16 && !PeakFlops(parts.config, parts.platform)) {
    PACELINE_LOG(WARNING) << "no MFU: the peak of " << parts.platform.DeviceName()
                          << " is not known; give peak_flops in the job file";
  }
}

bool ProgressReport::LineIsDue(int64_t step) const {
  const int64_t done = step + 1;
  return done % parts_.config.log_every == 0 || done == parts_.config.steps;
}

void ProgressReport::Expect(int64_t step, at::Tensor mean_loss,
                            std::optional<double> known_mean_loss) {
  expected_.push_back({step, std::move(norms_), std::move(mean_loss)});
  if (known_mean_loss.has_value()) mean_loss_ = known_mean_loss;
}

absl::Status ProgressReport::Publish(const std::vector<StepRecord>& records) {
  for (const StepRecord& record : records) {
    const Expected expected = std::move(expected_.front());
    expected_.pop_front();
    if (expected.mean_loss.defined()) mean_loss_ = expected.mean_loss.item<double>();
    const bool finite = std::isfinite(record.loss) && std::isfinite(record.grad_norm);
    interval_.Add(record, finite || parts_.config.on_nonfinite == NonFinite::kIgnore);
    if (!finite) PACELINE_RETURN_IF_ERROR(Judge(record, expected.norms));
    if (LineIsDue(expected.step)) EndInterval();
  }
  return absl::OkStatus();
}

std::string ProgressReport::FirstNotFinite(const at::Tensor& norms) const {
  const at::Tensor host = norms.cpu();
  for (int64_t i = 0; i < host.numel(); ++i) {
    if (!std::isfinite(host[i].item<float>())) {
      return parts_.model.parameters()[static_cast<size_t>(i)].name;
    }
  }
  return "";
}

absl::Status ProgressReport::Judge(const StepRecord& record, const at::Tensor& norms) {
  const std::string parameter = FirstNotFinite(norms);
  const std::string gradients =
      parameter.empty()
          ? "all gradients are finite"
          : absl::StrCat("the first gradient that is not finite is that of ", parameter);
  const std::string what =
      absl::StrCat("step ", record.step, " (from 0) of rank ", parts_.config.rank(),
                   ": the loss is ", record.loss, " and ", gradients);
  switch (parts_.config.on_nonfinite) {
    case NonFinite::kSkip:
      PACELINE_LOG(WARNING) << "skipped " << what;
      return absl::OkStatus();
    case NonFinite::kIgnore:
      if (!std::exchange(warned_, true)) {
        PACELINE_LOG(WARNING) << what << ": the training has diverged; try a smaller learning rate";
      }
      return absl::OkStatus();
    case NonFinite::kStop:
      break;
  }
  if (std::isfinite(record.loss) && parts_.config.world_size > 1) {
    return absl::UnavailableError(
        absl::StrCat(what, " after their mean over the ranks: see the ranks whose loss is not"));
  }
  return absl::InternalError(absl::StrCat(
      what,
      "; the parameters are as before it. Try a smaller learning rate or clip_grad_norm; "
      "on_nonfinite: skip leaves such steps out"));
}

void ProgressReport::EndInterval() {
  RankFigures figures = interval_.End();
  training_seconds_ += figures.wall_s;
  if (mean_loss_.has_value()) figures.loss = *mean_loss_;
  figures.memory = Memory(training_seconds_);
  figures.levels = parts_.strategy.figures();
  figures.drift = parts_.strategy.drift();
  parts_.control.SetFigures(figures);

  const StepRecord& last = interval_.last();
  std::string line = absl::StrFormat("step=%d loss=%.9g", figures.step, last.loss);
  if (mean_loss_) absl::StrAppendFormat(&line, " mean_loss=%.9g", *mean_loss_);
  absl::StrAppendFormat(&line, " lr=%.9g samples_per_s=%.1f grad_norm=%.6g",
                        LearningRate(parts_.config.schedule, figures.step - 1),
                        figures.samples_per_s * parts_.config.world_size, last.grad_norm);
  if (figures.tokens_per_s > 0) {
    absl::StrAppendFormat(&line, " tokens_per_s=%.1f",
                          figures.tokens_per_s * parts_.config.world_size);
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
