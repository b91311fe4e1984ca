// What a job has spent its time on, and how many steps it has done and lost. These sums only grow;
// they come from changes of the job and from the step times that its ranks measure.
//
// Each moment since the job was submitted belongs to one category:
//
//   QUEUED          queued
//   STARTING        startup
//   RUNNING         productive + data_wait   while its ranks were in steps, on average
//                   outside_steps            the rest: evaluations, saves, a rank that hangs
//   RECOVERING      recovery; so is all time from a failure that is followed by a restart until
//                   the job trains again
//   STOPPING        stopping
//
// A step is reported when it is over, and the report takes a second or so; therefore the newest
// part of the time in RUNNING is not counted at once.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_JOB_JOB_ACCOUNT_H_
#define CONTROLLER_CORE_JOB_JOB_ACCOUNT_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/time/time.h"
#include "common/core/moment.h"
#include "controller/core/job/job.h"

namespace paceline {

enum class TimeCategory {
  kQueued,
  kStartup,
  kProductive,
  kDataWait,
  kOutsideSteps,
  kRecovery,
  kStopping,
};
inline constexpr size_t kTimeCategories = 7;

// "queued", "outside_steps".
const char* NameOf(TimeCategory category);

class JobAccount {
 public:
  // For a job that begins now, or is found as it is: what it did before does not count.
  JobAccount(const Job& job, Moment now);

  // Takes in the job as it is now; it may not have changed.
  void Follow(const Job& job, Moment now);

  // A rank has reported a step; times in seconds.
  void TakeStep(double total_s, double data_wait_s);

  // Seconds, by TimeCategory.
  const std::array<double, kTimeCategories>& seconds() const { return seconds_; }
  // Steps done by all ranks together, including those repeated after a restart.
  int64_t steps_executed() const { return executed_; }
  // Steps done but thrown away by a restart or a recovery.
  int64_t steps_lost() const { return lost_; }
  // Wall: when the newest step was seen; infinite past: none yet.
  absl::Time progressed() const { return progressed_; }

 private:
  TimeCategory CategoryOf(const Job& job) const;
  void CountTime(absl::Time steady);
  void Divide(bool all);
  void CountSteps(const Job& job, Moment now);
  void Lose(int64_t step);
  void Add(TimeCategory category, double seconds) {
    seconds_[static_cast<size_t>(category)] += seconds;
  }

  std::array<double, kTimeCategories> seconds_{};
  int64_t executed_ = 0;
  int64_t lost_ = 0;
  absl::Time progressed_ = absl::InfinitePast();

  // About the job as it was at `since_`.
  absl::Time since_;  // Steady.
  bool ended_ = false;
  TimeCategory category_ = TimeCategory::kQueued;
  int ranks_ = 1;
  int restarts_ = 0;
  bool restarting_ = false;  // From a restart until it trains.
  Generation started_{0};
  Generation generation_{0};  // Newest one whose beginning was taken in.

  // In seconds: time in RUNNING not yet divided, and what ranks have reported of it, on average.
  double running_ = 0;
  double reported_productive_ = 0;
  double reported_wait_ = 0;
  double longest_step_ = 0;  // Of those reported since the job trains.

  bool is_step_known_ = true;
  int64_t step_ = 0;  // Newest one that is counted.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_JOB_ACCOUNT_H_
