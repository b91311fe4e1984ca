// Evaluates a rank's finished steps: checks losses and gradients for values that are not finite,
// and makes the figures of each interval and the log line:
//
//   step=10 loss=2.30258509 mean_loss=2.30258512 lr=0.1 samples_per_s=512.3 grad_norm=1.25
//
// step is the number of steps done; loss is that of this rank's batch; mean_loss is the latest mean
// over all ranks (with ddp that of this step, otherwise from the last parameter average over all
// ranks); lr is this step's learning rate; samples_per_s counts all ranks' samples per second of
// training, as far as this rank knows; grad_norm is before clipping. Token data adds tokens_per_s,
// known FLOPs and a known peak rate add mfu.
#ifndef WORKER_TRAINER_REPORT_PROGRESS_REPORT_H_
#define WORKER_TRAINER_REPORT_PROGRESS_REPORT_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "worker/ring/step_ring.h"
#include "worker/trainer/comm/platform.h"
#include "worker/trainer/config.h"
#include "worker/trainer/core/trend.h"
#include "worker/trainer/generation/control.h"
#include "worker/trainer/model/model_tensors.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/telemetry/interval.h"

namespace paceline {

// Seconds since the start by group size: of gradients (without what the backward pass hides), and
// of parameters.
struct CommunicationSeconds {
  std::map<int, double> gradients;
  std::map<int, double> parameters;
};

// Thread-compatible. Torch's exceptions pass through.
class ProgressReport {
 public:
  static constexpr size_t kTrendIntervals = 32;  // Over which memory growth is judged.

  // All of these must outlive the report.
  struct Parts {
    const TrainerConfig& config;
    const ModelTensors& model;
    Control& control;
    Platform& platform;
    // Adds the learning rate and what the strategy knows; levels without seconds. Where ranks make
    // different steps, also corrects the job's step. Returns the samples of all ranks per sample of
    // this rank in the same time.
    std::function<double(RankFigures* figures)> add_figures;
    CommunicationSeconds& communication;  // Continues from its values.
    // What the caller's code has reported of its steps; goes with each interval's figures.
    const std::vector<ReportedNumber>& reported;
    bool& has_begun;  // Whether the process has begun a step; BeforeStep sets it.
  };

  explicit ProgressReport(const Parts& parts)
      : parts_(parts), interval_(parts.config.session), rss_trend_(kTrendIntervals) {}

  // Call before each step. Before the first one, memory figures begin: of the whole process if it
  // is its first, else their peaks.
  void BeforeStep();

  // These keep what belongs to a step until its record is finished: each parameter's gradient norm,
  // on the device; the mean loss on its way to the host (or undefined); how many ranks the
  // gradients are averaged over; and whether an interval ends with the step.
  void ExpectNorms(at::Tensor norms) { norms_ = std::move(norms); }
  void Expect(at::Tensor mean_loss, int gradient_group_size, bool ends_interval);

  // Takes the records of the expected steps, in order. Fails when a loss or gradient was not finite
  // and the job should stop then: Unavailable when this rank's own loss was finite and gradients
  // were shared, so that another rank knows more.
  absl::Status Publish(const std::vector<StepRecord>& records);

 private:
  struct Expected {
    at::Tensor norms;
    at::Tensor mean_loss;
    int gradient_group_size = 1;
    bool ends_interval = false;
  };

  void CountCommunication(const StepRecord& record, int gradient_group_size);
  absl::Status Judge(const StepRecord& record, const Expected& expected);
  std::string FirstNotFinite(const at::Tensor& norms) const;
  // What is known of the model's cost and the device's peak by now.
  Interval::Cost Cost() const;
  // Warns, once, that a GPU has no MFU, and says what to do.
  void ExplainNoMfu(const Interval::Cost& cost);
  void EndInterval();
  MemoryFigures Memory(double seconds);

  const Parts parts_;
  Interval interval_;
  std::deque<Expected> expected_;
  at::Tensor norms_;  // Of the step expected next.
  std::optional<double> mean_loss_;
  bool begun_ = false;           // A step.
  bool warned_ = false;          // About divergence.
  bool explained_ = false;       // Why there is no MFU.
  double training_seconds_ = 0;  // Wall time of all intervals.
  Trend rss_trend_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_REPORT_PROGRESS_REPORT_H_
