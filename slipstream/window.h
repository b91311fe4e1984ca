// How long a window of Slipstream is: the time from one round's header to the next round.
//
// As short as the network allows, since ranks drift apart in it:
//   2 steps, or the longest of
//   c / 0.35   c the time of the payload's collective: it is under way a third of the time
//   b / 0.03   b the time that a rank's copies at step boundaries take in a round
// A rank may be 4 windows of steps ahead of the last finished round (the cap).
//
// Where stalls freeze the communication too, each round waits for them, and short windows meet
// all of them: when more than 5 of 50 rounds took over three such windows, after which ranks wait
// at the cap, the window is at least 32 steps, when that is so again 64, and the cap is one window.
// 50 rounds without one take a level back.
//
// What ranks do by themselves hurts a training most when it is young: a window is at most a 16th
// of the steps that the job has behind it, or 2 steps. (Constants: measured, in simulation and with
// Gloo processes.)
//
// All within bounds; with a pause for each round and all bounds 1 every rank makes one step a
// round.
//
// Depends on what was added only, to the bit: ranks that add the same have the same window.
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

  // What the ranks told of themselves in one round, on average. Zero: not known yet.
  struct Round {
    absl::Duration step;        // Of a rank that does not stall.
    absl::Duration collective;  // c.
    absl::Duration copies;      // b.
    bool stretched = false;     // The round before took longer than Patience.
    int64_t done = 0;           // Steps of the job, with this round's.
  };
  void Add(const Round& round);

  // 100 ms while the time of a step is not known.
  absl::Duration Length(const WindowBounds& bounds) const;
  // Steps.
  int64_t Cap(const WindowBounds& bounds) const;

  // A round that takes longer makes ranks wait at the cap, unless the window is longer for one of
  // the reasons below. Infinite while the time of a step is not known.
  absl::Duration Patience() const;

  // At least so many steps, because stalls freeze the communication; 0: they do not.
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
