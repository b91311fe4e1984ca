// A job with Slipstream, simulated: N state machines, each with both its threads, and the network.
//
// Steps, copies, passes and messages take random times; ranks stall, freeze with their
// communication, run by clocks of different speed, are killed and replaced. After each event the
// invariants of docs/decisions/0013-slipstream.md are checked; the first that does not hold is
// told by error(), and nothing happens any more. Everything follows from the seed.
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
    int ranks = 8;  // 1 .. 16 where all must be exact.
    // In modes of updates so many consecutive ranks, or what is left of them, share gradients.
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
    // In place of a random update, of x and the optimizer's state. Only the ranks' agreement is
    // checked then.
    std::function<void(int rank, SimulatedVector& x, SimulatedVector& slots)> update;

    absl::Duration step = absl::Milliseconds(50);
    double jitter = 0.5;           // A step takes between 1 - jitter and 1 + jitter of it.
    double stall_probability = 0;  // Of a step.
    absl::Duration stall = absl::Seconds(1);
    double freezing_share = 0;      // Of the stalls: the communication stands still meanwhile.
    double freeze_probability = 0;  // Of joining a collective.
    absl::Duration freeze = absl::Seconds(1);
    absl::Duration longest_pass = absl::Milliseconds(4);  // From 0, as below.
    absl::Duration longest_message = absl::Milliseconds(4);
    absl::Duration longest_stop = absl::Milliseconds(300);
    absl::Duration longest_recovery = absl::Milliseconds(500);
    double clock_error = 0.02;  // Clocks run by 1 - it to 1 + it.
  };

  explicit SimulatedRanks(const Options& options);

  // Until no rank has anything to do, an invariant is broken, or this much time has passed.
  void Run(absl::Duration duration = absl::Hours(10));
  // What shall happen later; before the first Run `delay` counts from the beginning.
  void After(absl::Duration delay, std::function<void()> what);
  // Called when all ranks have finished a round.
  void OnRound(std::function<void(int64_t round)> call) { on_round_ = std::move(call); }

  // All ranks prepare it, each a random time of up to `longest_delay` later.
  void Prepare(const SlipstreamPlan& plan, absl::Duration longest_delay);
  // The rank dies; the others rendezvous again, with a newcomer in its place if `replaced`.
  void Kill(int rank, bool replaced);
  // Models that differ are found by the ranks themselves.
  void IgnoreDivergence() { checks_models_ = false; }
  // The next update of this rank is not finite.
  void Poison(int rank) { poisons_ = rank; }

  const std::string& error() const { return error_; }
  absl::Duration elapsed() const { return now_ - start_; }
  // Until the latest round was finished.
  absl::Duration trained() const { return trained_; }
  bool has_recovered() const { return !broken_; }
  int ranks() const { return static_cast<int>(ranks_.size()); }
  SimulatedRank& rank(int rank) { return *ranks_[static_cast<size_t>(rank)]; }
  bool ended() const;
  // Of rank-steps in finished rounds.
  const RoundState& latest() const { return latest_; }
  // By plan epoch, the rounds after which it was taken up.
  const std::map<int64_t, int64_t>& plan_rounds() const { return plan_rounds_; }
  // By number of the order, the rounds at whose stop it was due.
  const std::map<int64_t, int64_t>& saves() const { return saves_; }
  // By round, of this generation.
  struct Stop {
    StopReasons due;
    int ranks = 0;  // That have come to it.
  };
  const std::map<int64_t, Stop>& stops() const { return stops_; }
  std::mt19937_64& random() { return random_; }

 private:
  struct Event {
    absl::Time time;
    int64_t number = 0;
    std::function<void()> what;
    bool operator<(const Event& other) const {  // The greatest is the next.
      return std::pair(other.time, other.number) < std::pair(time, number);
    }
  };
  struct Collective {
    size_t shape = 0;
    std::map<int, SimulatedVector> inputs;
  };
  // What a group exchanges, as far as it has come, by member.
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
  // Not if the rank is dead then; or its communication cut off, if it is `of_comm`.
  void Later(absl::Duration delay, SimulatedRank& rank, bool of_comm, std::function<void()> what);
  void Pump(SimulatedRank& rank);
  void PumpCompute(SimulatedRank& rank);
  void PumpComm(SimulatedRank& rank);
  void CarryOut(SimulatedRank& rank, const ComputeOrder& order);
  // With the rank's group (simulated_groups.cc).
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
  void MeetAnew();

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
  bool broken_ = false;                               // A rank was lost; collectives fail,
  bool cut_off_ = false;                              // and all know it.
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
