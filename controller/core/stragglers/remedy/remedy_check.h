// Whether a remedy has made a job's steps as short as was predicted.
//
// It has helped when at least half of the predicted fall is there, and has not when less than half
// is; a remedy that promised no fall (synchronous steps instead of a ladder that gains nothing) has
// not when steps are a tenth longer than predicted. Either counts only when the difference is
// beyond 1.645 standard errors (one-sided 95 %), since a mean of few steps tells little under
// random stalls. Errors are those of the windows' means, so windows must not be so short that a
// stall of several steps falls into many.
//
// Where it is known what the same steps would have taken without the remedy, they are compared with
// that, window by window: what happens by chance is then in both.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_CHECK_H_
#define CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_CHECK_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "controller/core/stragglers/remedy/remedy.h"

namespace paceline {

// The mean step of consecutive windows.
class StepMeter {
 public:
  // Steps from `first`, and the seconds of all of them. Requires: steps > 0, seconds >= 0, in
  // order.
  void Add(int64_t first, int64_t steps, double seconds);
  void Clear() { windows_.clear(); }

  int64_t steps() const;
  // Of the windows that begin at `since` or later. Nothing: they are fewer than 4, or hold fewer
  // than 20 steps.
  std::optional<StepMean> Mean(int64_t since = 0) const;

 private:
  struct Window {
    int64_t first = 0;
    int64_t steps = 0;
    double seconds = 0;
  };
  // At most 64, and those only of the latest 1,000 steps or so; oldest first.
  std::vector<Window> windows_;
};

enum class RemedyEffect { kOpen, kHelped, kDidNotHelp };

RemedyEffect CheckRemedy(const StepMean& before, double predicted_s, const StepMean& after);

// Steps after a remedy, beside what the same steps would have taken without it.
struct ComparedSteps {
  int64_t first_step = 0;
  int64_t steps = 0;
  double with_s = 0;  // Of all of them.
  double without_s = 0;
};

// The same check, of pairs. Requires: some, each of steps > 0.
RemedyEffect CheckPairs(const std::vector<ComparedSteps>& pairs, double predicted_share);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_CHECK_H_
