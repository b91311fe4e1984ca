// One simulated rank: its buffers, what its threads are doing, and an account of its work that is
// independent of the machine under test.
//
// All values are integers, so that means over up to 16 ranks are exact and every comparison is to
// the bit.
#ifndef SLIPSTREAM_TESTING_SIMULATED_RANK_H_
#define SLIPSTREAM_TESTING_SIMULATED_RANK_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "slipstream/group_steps.h"
#include "slipstream/rank.h"

namespace paceline {

using SimulatedVector = std::vector<double>;
constexpr size_t kSimulatedSize = 3;
// Updates and gradients are multiples of this number, which 1 to 16 divide.
constexpr double kSimulatedUnit = 720720;

SimulatedVector operator+(SimulatedVector a, const SimulatedVector& b);
SimulatedVector operator-(SimulatedVector a, const SimulatedVector& b);
SimulatedVector operator/(SimulatedVector a, double b);

struct SimulatedRank {
  SimulatedRank(const SlipstreamRank::Options& options, const RoundState& state,
                SimulatedVector z_in, SimulatedVector slots_in, absl::Time now);

  // What passes read and write, as bits.
  enum Item { kX = 1, kBuffer0 = 2, kZ = 16, kWire = 32, kGradient = 64, kSlots = 128 };
  struct Pass {
    int reads = 0;
    int writes = 0;
  };
  Pass PassOf(const ComputeOrder& order) const;
  Pass PassOf(const CommOrder& order) const;

  // Carry out orders. A returned line says what differs from the account.
  void Copy(ComputeOrder::Copy copy);
  void BeginFill();  // What is in pub now will be sent.
  std::optional<std::string> Fill(CommOrder::Fill fill);
  // The rank's part of a round's payload: wire and slots.
  SimulatedVector PayloadInput(const CommOrder::Payload& payload) const;
  void Apply(const CommOrder::Payload& payload);
  // The lossy format: keeps only multiples of `units` of the values, and adds the others to `rest`.
  static void Round(double units, double* values, SimulatedVector& rest);

  // Whether own work equals what was sent plus x - ref; else says what is wrong.
  std::optional<std::string> CheckAccount() const;
  // After a round, or when others have ended it: counts what it took of this rank.
  void CountUsed();

  SlipstreamRank machine;
  GroupSteps group{1};
  int rank = 0;
  SimulatedVector x, z, wire, rest, gradient, slots, sum;
  std::array<SimulatedVector, 3> buffers;

  // The account: sums of all updates, and of those in pub, in `sent`, in finished rounds, and lost.
  SimulatedVector updates, published, in_flight, sent, lost;
  bool exact = true;      // Numbers are exact; if not, the account is ignored.
  bool counts = false;    // x and ref are those of a local mode.
  bool poisoned = false;  // x is not finite.
  double squared = 0;     // From the latest fill.
  int64_t gradient_number = 0;
  int64_t used_gradient = 0;  // Number of the latest gradient used.
  bool sent_in_round = false;
  int64_t counted_updates = 0, counted_gradients = 0;

  std::optional<Pass> compute_pass, comm_pass;
  bool dead = false;
  bool compute_busy = false, compute_ended = false;
  bool copies = false;    // What the compute thread is busy with is a copy,
  bool at_stop = false;   // or a stop,
  bool in_group = false;  // or something that it does with its group.
  bool comm_busy = false, comm_ended = false;
  bool in_collective = false;
  int64_t incarnation = 0;  // Of the comm thread: events of one that was cut off are void.
  double clock_rate = 1;
  double slowness = 1;
  absl::Duration extra;     // Added to the next step.
  absl::Time frozen_until;  // Until then its communication stands still.
  int64_t collectives = 0;
  int64_t steps = 0;
  std::optional<absl::Time> waits_since;
  ComputeOrder::Wait wait = ComputeOrder::Wait::kRound;
  std::array<absl::Duration, 4> waited;  // By ComputeOrder::Wait.
  absl::Duration computed, stalled;
};

}  // namespace paceline

#endif  // SLIPSTREAM_TESTING_SIMULATED_RANK_H_
