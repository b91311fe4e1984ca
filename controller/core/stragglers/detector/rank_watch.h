// Whether one rank is slow, by its residuals against its peers: the state machine of verdict.h.
//
// Evidence: `slow` is the noise, kept between min_slowdown and max_slowdown. For shifts d of slow,
// 2 slow and 4 slow there is a one-sided CUSUM (E. S. Page, Biometrika 41, 1954) of the
// log-likelihood ratio of the residual y being shifted by d or not at all, in noise of deviation
// sigma:
//
//   g = max(0, g + clip(d / (sigma^2 inflation) (y - d / 2)))        evidence when g > kEvidence
//
// The clip bounds what a single row can say. A far-off row is worth no more than the logarithm of
// how improbable the noise makes it (NoiseLevel::tail), and at least 4 rows are needed to decide,
// or 5 while backward does not show the slowness too, since the host's pauses are in forward. So
// one pause, or three, cannot cause an alarm.
//
// Verification: both the median and the mean of the residuals since the CUSUM left 0 must exceed a
// bit more than half of `slow` by 3 times what noise does to the median, and exceed what
// differences of the hardware and the ticks of the clocks explain. Hardware does not change, so it
// does not explain what exceeds the rank's own level before the evidence by as much. Pauses do not
// move the median. The mean, with values cut off, does not jump from tick to tick of a coarse
// clock.
//
// Level: a healthy rank's mean residual, which no single row moves far. If 100 successive rows are
// far from it, the level was not due to the hardware, and is learned anew from the latest. Else the
// ranks of a job that began with many slow ones would seem to differ for thousands of rows.
//
// Release: a CUSUM in the other direction, which needs at least release_steps rows. Its noise is
// the rank's own if that is less than the group's. Where only two ranks can be compared, each pause
// of one raises the group's, and while one is slow that may stay as it is, as nothing is learned.
//
// Persistent: of the rows kept at the alarm and those since, persistent_steps are above half of
// `slow`, and as many more as the verification needs in this noise. Rows after the release's CUSUM
// has left 0 count only when it is back at 0. Then the last rows are verified once more, and the
// interval of the estimate must be above 1.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_DETECTOR_RANK_WATCH_H_
#define CONTROLLER_CORE_STRAGGLERS_DETECTOR_RANK_WATCH_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "controller/core/stragglers/detector/noise_scale.h"

namespace paceline {

struct WatchOptions {
  double min_slowdown = 0.05;
  double max_slowdown = 0.10;
  int release_steps = 20;
  int persistent_steps = 120;
  double persistent_s = 10;
};

// One row of one rank.
struct WatchRow {
  int64_t step = 0;
  double residual = 0;
  // From forward and backward alone, against the whole group; NaN: not known.
  double forward = 0;
  double backward = 0;
  double lost_s = 0;  // What it costs the job if the rank is slow.
  double job_s = 0;   // Time of the row.
  double tick = 0;    // Of the clocks, as a part of the rank's own time.
  bool held = false;  // Its group has an event: the rank cannot become persistent now.
  bool usual = true;  // Its peers are not slow: if it is healthy, this is its usual level.
};

struct SlowdownEstimate {
  double slowdown = 1;  // exp of the median residual, with a 95 % interval.
  double low = 1;
  double high = 1;
};

class RankWatch {
 public:
  enum class State { kHealthy, kSuspect, kPersistent };
  enum class Change { kNone, kSuspect, kTransient, kPersistent, kRecovered };

  Change Update(const WatchRow& row, const NoiseLevel& noise, const WatchOptions& options);

  // Says that slowness comes back so often at this slot that a suspect counts as persistent.
  void SetRecurrent() { recurrent_ = true; }

  State state() const { return state_; }

  // First step of the episode; valid until the update after its end.
  int64_t since_step() const { return since_step_; }
  // As of when it was found, or became persistent.
  const SlowdownEstimate& estimate() const { return estimate_; }
  // The share of the job's time that the episode has cost.
  double lost_share() const;
  // Mean residuals of forward and backward; NaN: not known in any row.
  double forward() const { return forward_.Mean(); }
  double backward() const { return backward_.Mean(); }

  // The mean residual while healthy, slowly forgetting, or learned anew.
  double level() const { return level_; }
  // How many far-off rows this one has ended without an alarm; else 0.
  int ended_run() const { return ended_run_; }

 private:
  static constexpr int kShifts = 3;
  static constexpr int kKept = 64;  // Residuals kept.

  struct KnownMean {
    double sum = 0;
    int rows = 0;

    void Add(double value) {
      if (std::isnan(value)) return;
      sum += value;
      ++rows;
    }
    double Mean() const { return sum / rows; }  // 0 / 0 is NaN.
  };

  SlowdownEstimate Estimate(const WatchRow& row, const NoiseLevel& noise) const;
  double OwnInflation(int count) const;
  // `least`, or more if hardware or rounding explain more.
  double Limit(double least, const WatchRow& row, const NoiseLevel& noise) const;
  double Sigma(const NoiseLevel& noise) const;
  double ReleaseSigma(const WatchRow& row, const NoiseLevel& noise) const;
  void Learn(const WatchRow& row, const NoiseLevel& noise);
  void CountRun(const WatchRow& row, const NoiseLevel& noise);
  void Collect(const WatchRow& row);
  bool Gather(const WatchRow& row, double slow, double sigma, const NoiseLevel& noise);
  bool Release(const WatchRow& row, double slow, const NoiseLevel& noise,
               const WatchOptions& options);
  void Forget();
  // The residual of `age` rows ago.
  float Residual(int age) const {
    return residuals_[static_cast<size_t>((next_ - 1 - age + 2 * kKept) % kKept)];
  }
  // Of the last `count` residuals; for the mean each is cut off at +-`cut`.
  double Median(int count) const;
  double Mean(int count, double cut) const;

  State state_ = State::kHealthy;
  bool recurrent_ = false;
  bool ended_ = false;  // With the row before the episode ended.
  SlowdownEstimate estimate_;
  int seen_ = 0;  // Rows, up to a limit.
  int run_ = 0;   // Far-off rows in succession.
  int ended_run_ = 0;
  int rows_ = 0;           // Since the evidence left 0.
  int episode_rows_ = 0;   // Since since_step_,
  int slow_rows_ = 0;      // how many of these were slow,
  int doubtful_rows_ = 0;  // and those that may be past its end.
  int next_ = 0;           // Index in residuals_.
  std::array<double, kShifts> evidence_ = {};
  std::array<int, kShifts> evidence_rows_ = {};
  std::array<int64_t, kShifts> evidence_step_ = {};
  double released_ = 0;
  double tail_ = 0;               // The rank's own NoiseLevel::tail.
  double difference_ = 0;         // Mean |residual - the residual before|.
  double recent_difference_ = 0;  // Quickly forgetting.
  double last_ = 0;
  double level_ = 0;
  int level_rows_ = 0;       // Rows it is known from, up to a limit.
  int away_rows_ = 0;        // Successive rows that are far from it.
  double former_level_ = 0;  // Both before the evidence left 0.
  int former_rows_ = 0;
  KnownMean forward_;
  KnownMean backward_;
  double lost_s_ = 0;
  double job_s_ = 0;  // Since the evidence left 0.
  int64_t since_step_ = 0;
  std::array<float, kKept> residuals_ = {};
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_DETECTOR_RANK_WATCH_H_
