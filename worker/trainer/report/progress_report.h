// What a rank makes of its finished steps: the verdict on losses and gradients that are not
// finite, the figures of each interval, and the log line:
//
//   step=10 loss=2.30258509 mean_loss=2.30258512 lr=0.1 samples_per_s=512.3 grad_norm=1.25
//
// with the number of steps done; the loss of this rank's batch; the latest mean over all ranks
// (with ddp that of this step, else that of the last mean of parameters over all ranks); the
// learning rate of that step; the samples of all ranks per second of training, as far as this
// rank can tell; the norm of the gradients before clipping. Token data adds tokens_per_s, a
// known peak mfu.
#ifndef WORKER_TRAINER_REPORT_PROGRESS_REPORT_H_
#define WORKER_TRAINER_REPORT_PROGRESS_REPORT_H_

#include <ATen/core/Tensor.h>

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
#include "worker/trainer/model/model.h"
#include "worker/trainer/report/figures.h"
#include "worker/trainer/telemetry/interval.h"

namespace paceline {

// Seconds since the start by size of the group: of gradients (beyond what the backward pass hides),
// and of parameters.
struct CommunicationSeconds {
  std::map<int, double> gradients;
  std::map<int, double> parameters;
};

// Thread-compatible. Torch's exceptions pass through.
class ProgressReport {
 public:
  // All of it outlives the report.
  struct Parts {
    const TrainerConfig& config;
    const Model& model;
    Control& control;
    Platform& platform;
    // Adds what the strategy knows; levels without seconds. Where ranks do not make the same steps
    // it also puts the job's step and learning rate right. Returns the samples of all ranks for one
    // of this rank, in the same time.
    std::function<double(RankFigures* figures)> add_figures;
    CommunicationSeconds& communication;  // Goes on from what it is.
  };

  explicit ProgressReport(const Parts& parts);

  // Keep what belongs to a step until its record is finished: the norm of each parameter's
  // gradient, on the device; then the mean loss on its way to the host (or undefined), of how many
  // ranks the gradients are the mean, and whether an interval ends with it.
  void ExpectNorms(at::Tensor norms) { norms_ = std::move(norms); }
  void Expect(at::Tensor mean_loss, int gradient_group_size, bool ends_interval);

  // Takes the records of steps that were expected, in order. An error when a loss or gradient
  // was not finite and the job is to stop then: Unavailable when this rank's own loss was
  // finite and the gradients were shared, so that another rank has more to say.
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
  void EndInterval();
  MemoryFigures Memory(double seconds);

  const Parts parts_;
  Interval interval_;
  std::deque<Expected> expected_;
  at::Tensor norms_;  // Of the step that is expected next.
  std::optional<double> mean_loss_;
  bool warned_ = false;          // That the training has diverged.
  double training_seconds_ = 0;  // Wall time of all intervals.
  Trend rss_trend_;
};

}  // namespace paceline

#endif  // WORKER_TRAINER_REPORT_PROGRESS_REPORT_H_
