// How long a window of Slipstream is: the time from one round's header to the next round.
//
// It is as short as the network allows, since ranks drift apart in it: the longest of
//   2 steps
//   c / 0.35   c: the time of the payload's collective, which runs for about a third of the window
//   b / 0.03   b: the time that a rank's copies at step boundaries take in a round
// A rank may be 4 windows of steps ahead of the last finished round (the cap).
//
// If stalls freeze communication, too, each round waits for them, and short windows meet all of
// them. When more than 5 of 50 rounds took over three such windows, after which ranks wait at the
// cap, the window becomes at least 32 steps, or 64 if that happens again, and the cap is one
// window. 50 rounds without such a one take back one level.
//
// What ranks do by themselves hurts a young training most. So a window is at most a 16th of the
// steps that the job has behind it, or 2 steps. (Constants were measured in simulation and with
// Gloo processes.)
//
// All this holds within bounds. With a pause for each round and all bounds 1, every rank makes one
// step a round.
//
// Depends only on what was added, to the bit: ranks that add the same have the same window.
//
// Thread-compatible.
#ifndef SLIPSTREAM_WINDOW_H_
#define SLIPSTREAM_WINDOW_H_

#include <cstdint>

#include "absl/time/time.h"

namespace paceline {

// In steps. Requires: 1 <= min_steps <= max_steps, 1 <= max_cap.
struct WindowBounds {
  int64_t min_steps = 1;
  int64_t max_steps = 64;
  int64_t max_cap = 256;
};

class Window {
 public:
  static constexpr int kRoundsPerLook = 50;
  static constexpr int kStretchedAllowed = 5;

  // What the ranks reported in one round, on average. Zero: not known yet.
  struct Round {
    absl::Duration step;        // Of a rank that does not stall.
    absl::Duration collective;  // The c above.
    absl::Duration copies;      // The b above.
    bool stretched = false;     // The last round took longer than Patience.
    int64_t done = 0;           // Steps of the job, including this round's.
  };
  void Add(const Round& round);

  // 100 ms while the time of a step is not known.
  absl::Duration Length(const WindowBounds& bounds) const;
  // In steps.
  int64_t Cap(const WindowBounds& bounds) const;

  // A round that takes longer makes ranks wait at the cap, unless the window is longer for another
  // reason. Infinite while the time of a step is not known.
  absl::Duration Patience() const;

  // The least window in steps, because stalls freeze communication; 0: they do not.
  int64_t frozen_steps() const { return frozen_steps_; }
  absl::Duration step() const { return latest_.step; }
  absl::Duration collective() const { return latest_.collective; }
  absl::Duration copies() const { return latest_.copies; }

 private:
  // By the costs of a round alone.
  double CheapSteps() const;
  double Steps(const WindowBounds& bounds) const;

  Round latest_;
  int rounds_ = 0;  // Since the last look.
  int stretched_ = 0;
  int64_t done_ = 0;
  int64_t frozen_steps_ = 0;
};

}  // namespace paceline

#endif  // SLIPSTREAM_WINDOW_H_
