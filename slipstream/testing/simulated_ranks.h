// A simulated job with Slipstream: N state machines, each with both its threads, and the network.
//
// Steps, copies, passes and messages take random times. Ranks stall, freeze with their
// communication, have clocks of different speed, are killed and replaced. After each event the
// invariants of docs/decisions/0013-slipstream.md are checked; error() reports the first that does
// not hold, and nothing more happens. Everything follows from the seed.
#ifndef SLIPSTREAM_TESTING_SIMULATED_RANKS_H_
#define SLIPSTREAM_TESTING_SIMULATED_RANKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "slipstream/plan.h"
#include "slipstream/round_state.h"
#include "slipstream/testing/simulated_rank.h"

namespace paceline {

class SimulatedRanks {
 public:
  struct Options {
    int ranks = 8;  // 1 to 16 if all must be exact.
    // In modes of updates this many consecutive ranks, or what is left of them, share gradients.
    int group_size = 1;
    uint64_t seed = 1;
    SlipstreamMode mode = SlipstreamMode::kFree;
    WindowBounds window;
    int64_t first_step = 0;
    int64_t target_steps = 100;
    StopPeriods periods;
    bool averages_state = false;
    bool stops_at_bad_update = true;
    bool lossy_updates = false;
    // Replaces a random update of x and the optimizer's state. Then only the agreement of the ranks
    // is checked.
    std::function<void(int rank, SimulatedVector& x, SimulatedVector& slots)> update;

    absl::Duration step = absl::Milliseconds(50);
    double jitter = 0.5;           // A step takes between 1 - jitter and 1 + jitter times `step`.
    double stall_probability = 0;  // Of a step to stall.
    absl::Duration stall = absl::Seconds(1);
    double freezing_share = 0;      // Of the stalls: those that freeze communication.
    double freeze_probability = 0;  // Of a rank that joins a collective.
    absl::Duration freeze = absl::Seconds(1);
    absl::Duration longest_pass = absl::Milliseconds(4);  // Drawn from 0 on; so below.
    absl::Duration longest_message = absl::Milliseconds(4);
    absl::Duration longest_stop = absl::Milliseconds(300);
    absl::Duration longest_recovery = absl::Milliseconds(500);
    double clock_error = 0.02;  // Clocks run at 1 - this to 1 + this.
  };

  explicit SimulatedRanks(const Options& options);

  // Runs until no rank has anything to do, an invariant is broken, or this much time has passed.
  void Run(absl::Duration duration = absl::Hours(10));
  // Does `what` later; before the first Run, `delay` counts from the beginning.
  void After(absl::Duration delay, std::function<void()> what);
  // Called when all ranks have finished a round.
  void OnRound(std::function<void(int64_t round)> call) { on_round_ = std::move(call); }

  // All ranks prepare the plan, each at a random time up to `longest_delay` from now.
  void Prepare(const SlipstreamPlan& plan, absl::Duration longest_delay);
  // The rank dies; the others rendezvous again, with a newcomer in its place if `replaced`.
  void Kill(int rank, bool replaced);
  // Models may differ: the ranks themselves must find that.
  void IgnoreDivergence() { checks_models_ = false; }
  // Makes the next update of this rank not finite.
  void Poison(int rank) { poisons_ = rank; }

  const std::string& error() const { return error_; }
  absl::Duration elapsed() const { return now_ - start_; }
  // Time until the latest round was finished.
  absl::Duration trained() const { return trained_; }
  bool has_recovered() const { return !broken_; }
  int ranks() const { return static_cast<int>(ranks_.size()); }
  SimulatedRank& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  bool ended() const;
  // The state after the latest finished round.
  const RoundState& latest() const { return latest_; }
  // By plan version: the round after which it was taken up.
  const std::map<int64_t, int64_t>& plan_rounds() const { return plan_rounds_; }
  // By order number: the round at whose stop it was due.
  const std::map<int64_t, int64_t>& saves() const { return saves_; }
  // A stop of this generation, by round.
  struct Stop {
    StopReasons due;
    int ranks = 0;  // Ranks that have come to it.
  };
  const std::map<int64_t, Stop>& stops() const { return stops_; }
  std::mt19937_64& random() { return random_; }

 private:
  struct Event {
    absl::Time time;
    int64_t number = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {  // The greatest is the next one.
      return std::pair(other.time, other.number) < std::pair(time, number);
    }
  };
  struct Collective {
    size_t shape = 0;
    std::map<int, SimulatedVector> inputs;
  };
  // What a group is exchanging, as far as it has come, by member.
  struct Asked {
    ComputeOrder order;
    int64_t update_periods = 0;
  };
  struct Group {
    std::map<int, Asked> orders;
    std::map<int, absl::Time> gradients;  // When their steps began.
  };

  absl::Time ClockOf(const SimulatedRank& rank) const;
  absl::Duration Random(absl::Duration longest);
  bool Happens(double probability);
  void Check(const SimulatedRank& rank, const std::optional<std::string>& wrong);
  // Does nothing if the rank is dead by then or, for `of_comm`, its communication was cut off.
  void Later(absl::Duration delay, SimulatedRank& rank, bool of_comm, std::function<void()> what);
  void Pump(SimulatedRank& rank);
  void PumpCompute(SimulatedRank& rank);
  void PumpComm(SimulatedRank& rank);
  void CarryOut(SimulatedRank& rank, const ComputeOrder& order);
  // What the rank does with its group (simulated_groups.cc).
  std::vector<SimulatedRank*> GroupOf(const SimulatedRank& rank);
  void EnterGroup(SimulatedRank& rank);
  void AskGroup(SimulatedRank& rank, const ComputeOrder& order);
  void Answer(SimulatedRank& rank, const Asked& asked, const SimulatedVector& sums);
  void ShareGradient(SimulatedRank& rank, const ComputeOrder& order, absl::Time began);
  void LeaveGroup(SimulatedRank& rank);
  void BeginStop(SimulatedRank& rank);
  void BeginStep(SimulatedRank& rank, const ComputeOrder& order);
  absl::Duration StepTime(SimulatedRank& rank);
  void EndStep(SimulatedRank& rank, const ComputeOrder& order, absl::Duration took,
               const SimulatedVector& change);
  SimulatedVector RandomChange();
  void EndPass(SimulatedRank& rank, const CommOrder& order);
  void Join(SimulatedRank& rank, const CommOrder& order);
  void Deliver(SimulatedRank& rank, const CommOrder& order, const SimulatedVector& sum);
  void Apply(SimulatedRank& rank, const CommOrder& order);
  void CheckPass(const SimulatedRank& rank, const SimulatedRank::Pass& pass,
                 const std::optional<SimulatedRank::Pass>& other);
  void CheckRound(SimulatedRank& rank, const RoundOutcome& outcome);
  void CutOff();
  void RendezvousAgain();
  void Rejoin(SimulatedRank& rank, const RoundState& state, bool behind, const SimulatedVector& z,
              const SimulatedVector& slots);

  const Options options_;
  std::mt19937_64 random_;
  const absl::Time start_ = absl::FromUnixSeconds(1000);
  absl::Time now_ = start_;
  int64_t events_ = 0;
  std::priority_queue<Event> queue_;
  std::vector<std::unique_ptr<SimulatedRank>> ranks_;
  std::map<int64_t, Collective> collectives_;
  std::map<int, Group> groups_;                       // By first member.
  std::vector<std::unique_ptr<SimulatedRank>> dead_;  // Events refer to them.
  bool broken_ = false;                               // A rank was lost, and collectives fail;
  bool cut_off_ = false;                              // all ranks know it.
  bool replaces_ = false;
  int poisons_ = -1;
  bool checks_models_ = true;
  SlipstreamPlan newest_plan_;
  std::function<void(int64_t)> on_round_;
  std::string error_;

  // What the first rank that finished a round had; the others must have the same.
  struct Finished {
    SimulatedVector z, slots;
    int ranks = 0;
    RoundState state;
    RoundOutcome outcome;
  };
  std::map<int64_t, Finished> finished_;
  RoundState latest_;
  absl::Duration trained_;
  std::map<int64_t, int64_t> plan_rounds_;
  std::map<int64_t, int64_t> saves_;
  std::map<int64_t, Stop> stops_;
};

}  // namespace paceline

#endif  // SLIPSTREAM_TESTING_SIMULATED_RANKS_H_
