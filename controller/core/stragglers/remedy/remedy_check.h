// Whether a remedy has shortened a job's steps as much as predicted.
//
// It has helped if at least half of the predicted fall is there, and has not if less is. A remedy
// that promised no fall (synchronous steps instead of a ladder that gains nothing) has not helped
// if steps are a tenth longer than predicted. Either verdict needs a difference beyond 1.645
// standard errors (one-sided 95 %), since under random stalls a mean of few steps tells little.
// Errors are those of the windows' means, so windows must not be so short that one stall of several
// steps falls into many.
//
// If it is known what the same steps would have taken without the remedy, the two are compared
// window by window, so that both contain the same chance events.
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
  // Takes in `steps` steps from `first`, and the seconds of all of them. Requires: steps > 0,
  // seconds >= 0, windows in order.
  void Add(int64_t first, int64_t steps, double seconds);
  void Clear() { windows_.clear(); }

  int64_t steps() const;
  // The mean over windows that begin at `since` or later. Nothing: there are fewer than 4, or they
  // hold fewer than 20 steps.
  std::optional<StepMean> Mean(int64_t since = 0) const;

 private:
  struct Window {
    int64_t first = 0;
    int64_t steps = 0;
    double seconds = 0;
  };
  // Oldest first; at most 64, and only of about the latest 1,000 steps.
  std::vector<Window> windows_;
};

enum class RemedyEffect { kOpen, kHelped, kDidNotHelp };

RemedyEffect CheckRemedy(const StepMean& before, double predicted_s, const StepMean& after);

// Steps after a remedy, and what they would have taken without it.
struct ComparedSteps {
  int64_t first_step = 0;
  int64_t steps = 0;
  double with_s = 0;  // For all of them.
  double without_s = 0;
};

// The same check with pairs. Requires: there are pairs, each of steps > 0.
RemedyEffect CheckPairs(const std::vector<ComparedSteps>& pairs, double predicted_share);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_REMEDY_REMEDY_CHECK_H_
