// Whether one rank is slow, from its residuals to its peers: the state machine of verdict.h.
//
// Evidence: for shifts d of slow, 2 slow and 4 slow, where slow is the noise between min_slowdown
// and max_slowdown, a one-sided CUSUM (E. S. Page, Biometrika 41, 1954) of the log-likelihood ratio
// of the residual y being shifted by d, or not at all, in noise of deviation sigma:
//
//   g = max(0, g + clip(d / (sigma^2 inflation) (y - d / 2)))        evidence when g > kEvidence
//
// The clip bounds what a single row may say, whatever its value: a row far off is worth no more
// than the logarithm of how improbable the noise makes it (NoiseLevel::tail), and never so much
// that fewer than 4 rows decide, or 5 while backward does not show the slowness too: the host's
// pauses are in forward. So one pause, or three, cannot alarm.
//
// Verification: the residuals since the CUSUM left 0 lie higher than a bit more than half of
// `slow`, by 3 times what noise does to their median; and higher than differences of the hardware
// and the ticks of the clocks explain. Hardware does not change: what exceeds by so much the rank's
// own level before there was evidence is not explained by it. Both their median, which
// pauses do not move, and their mean, cut off, which does not jump from tick to tick of a coarse
// clock.
//
// Release: a CUSUM the other way, of which release_steps rows are needed at least.
//
// Persistent: of the rows that are kept and those that followed, persistent_steps lie above half of
// `slow`, and as many more as the verification needs in this noise; rows after the release's CUSUM
// has left 0 count when it is there again. The last ones are verified once more, and the interval
// of the estimate lies above 1.
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

// Of one rank and row.
struct WatchRow {
  int64_t step = 0;
  double residual = 0;
  // Of forward and backward alone, to the whole group; NaN: not known.
  double forward = 0;
  double backward = 0;
  double lost_s = 0;  // Of the job's time, were the rank slow.
  double job_s = 0;   // What the row took.
  double tick = 0;    // Of the clocks, as a part of its own time.
  bool held = false;  // Its group has an event: it cannot become persistent now.
  bool usual = true;  // Its peers are not slow: while it is healthy, this is its usual level.
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

  // A suspect comes back so often that it counts as persistent.
  void SetRecurrent() { recurrent_ = true; }

  State state() const { return state_; }

  // Of the episode; valid until the update after its end.
  int64_t since_step() const { return since_step_; }
  // When it was found, or persistent.
  const SlowdownEstimate& estimate() const { return estimate_; }
  // Of the job's time.
  double lost_share() const;
  // Mean residuals of forward and backward; NaN: not known in any row.
  double forward() const { return forward_.Mean(); }
  double backward() const { return backward_.Mean(); }

  // The mean residual, slowly forgetting; when healthy.
  double level() const { return level_; }
  // Far-off rows before this one, if it ended them without an alarm; else 0.
  int ended_run() const { return ended_run_; }

 private:
  static constexpr int kShifts = 3;
  static constexpr int kKept = 64;  // Residuals.

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
  // At least `least`, and more where hardware or rounding explain more.
  double Limit(double least, const WatchRow& row, const NoiseLevel& noise) const;
  double Sigma(const NoiseLevel& noise) const;
  void Learn(const WatchRow& row, const NoiseLevel& noise);
  void CountRun(const WatchRow& row, const NoiseLevel& noise);
  void Collect(const WatchRow& row);
  bool Gather(const WatchRow& row, double slow, double sigma, const NoiseLevel& noise);
  bool Release(const WatchRow& row, double slow, const NoiseLevel& noise,
               const WatchOptions& options);
  void Forget();
  // Of so many rows ago.
  float Residual(int age) const {
    return residuals_[static_cast<size_t>((next_ - 1 - age + 2 * kKept) % kKept)];
  }
  // Of the last residuals; the mean with each cut off at +-`cut`.
  double Median(int count) const;
  double Mean(int count, double cut) const;

  State state_ = State::kHealthy;
  bool recurrent_ = false;
  bool ended_ = false;  // The episode, with the row before.
  SlowdownEstimate estimate_;
  int seen_ = 0;  // Rows, up to a bound.
  int run_ = 0;   // Far-off rows in a row.
  int ended_run_ = 0;
  int rows_ = 0;           // Since the evidence left 0.
  int episode_rows_ = 0;   // Since since_step_,
  int slow_rows_ = 0;      // and of these the slow ones,
  int doubtful_rows_ = 0;  // but for these, by when it may have ended.
  int next_ = 0;           // In residuals_.
  std::array<double, kShifts> evidence_ = {};
  std::array<int, kShifts> evidence_rows_ = {};
  std::array<int64_t, kShifts> evidence_step_ = {};
  double released_ = 0;
  double tail_ = 0;               // The rank's own NoiseLevel::tail.
  double difference_ = 0;         // Mean |residual - the one before|.
  double recent_difference_ = 0;  // Quickly forgetting.
  double last_ = 0;
  double level_ = 0;
  int level_rows_ = 0;       // It is known from, up to a bound.
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
