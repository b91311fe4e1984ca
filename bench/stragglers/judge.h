// Compares the verdicts on one history with its labels.
//
//   right SUSPECT    the rank has a fault or transient, or had one within the last kGrace steps
//   wrong drain      PERSISTENT or NODE without a lasting fault of that rank or on that node
//   right class      a lasting fault was called PERSISTENT or NODE; a transient never was
//   wrong end        TRANSIENT or RECOVERED during a lasting fault that is never off
//   right interval   the interval of PERSISTENT contains the factor of the lasting fault, times the
//                    factor by which the rank differs from its peers without it
//   right GROUP      something that many ranks of the group share, or the last stage's longer work
//
// Being slow for one step is no fault. Faults of a group, stage or job are found by GROUP: their
// ranks are no stragglers, and draining one is wrong. Times count up to the step whose reports made
// the verdict known; if the detector waited for reports, that is later than the verdict's own step.
//
// Thread-compatible.
#ifndef BENCH_STRAGGLERS_JUDGE_H_
#define BENCH_STRAGGLERS_JUDGE_H_

#include <cstdint>
#include <vector>

#include "bench/stragglers/fault.h"
#include "bench/stragglers/figures.h"
#include "controller/core/stragglers/detector/step_sample.h"
#include "controller/core/stragglers/detector/verdict.h"

namespace paceline::detect {

inline constexpr int64_t kGrace = 20;
inline constexpr int64_t kFindable = 20;  // Transients of this many steps should be found.

class Judge {
 public:
  // `spec`, `faults` and `ranks` are those of the history, and outlive the judge.
  Judge(const HistorySpec& spec, const std::vector<Fault>& faults,
        const std::vector<DetectorRank>& ranks);

  // Records a verdict that became known with the reports of step `now`.
  void Hear(const Verdict& verdict, int64_t now);

  // The same for a rule that only calls ranks slow: it counts both as SUSPECT and as a drain.
  void HearAlarm(int rank, int64_t now);

  // Figures of the whole history, which had `rank_steps` rank-steps.
  Figures Sum(int64_t rank_steps) const;

 private:
  struct Heard {
    int64_t suspect = -1;  // When it was found, and when called lasting; -1: never.
    int64_t drain = -1;
  };

  void HearSuspect(const Verdict& verdict, int64_t now);
  void HearDrain(const Verdict& verdict, int64_t now);
  void HearInterval(const Fault& fault, const Verdict& verdict);
  void HearEnd(const Verdict& verdict);
  void HearGroup(const Verdict& verdict, int64_t now);
  bool Touches(const Fault& fault, const Verdict& verdict) const;
  bool ManyAreSlow(int peer_group, int64_t step) const;

  const HistorySpec& spec_;
  const std::vector<Fault>& faults_;
  const std::vector<DetectorRank>& ranks_;
  std::vector<Heard> heard_;  // By fault.
  Figures figures_;
};

}  // namespace paceline::detect

#endif  // BENCH_STRAGGLERS_JUDGE_H_
