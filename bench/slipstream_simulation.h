// Thousands of ranks with Slipstream in simulated time: the trainers' own state machines
// (slipstream/rank.h), both threads of each, without models.
//
// Steps take the given times. A message takes the same time for all ranks, counted from when the
// last rank has joined, and a pass over the parameters always takes the same time. A rank whose
// communication is frozen joins when its stall is over. (testing/simulated_ranks.h, of the same
// package, is for finding mistakes: it has models and random times, and checks each event.)
#ifndef BENCH_SLIPSTREAM_SIMULATION_H_
#define BENCH_SLIPSTREAM_SIMULATION_H_

#include <cstdint>
#include <queue>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/stragglers/slipstream/own_steps.h"
#include "controller/core/stragglers/slipstream/slipstream_model.h"
#include "slipstream/rank.h"

namespace paceline {

class SlipstreamSimulation {
 public:
  // `steps` outlives this.
  SlipstreamSimulation(const OwnSteps& steps, const SlipstreamCosts& costs, SlipstreamMode mode,
                       const WindowBounds& bounds);

  // Simulates this much more time.
  void Run(absl::Duration duration);

  // Steps of the job in finished rounds.
  double steps_done() const;
  int64_t rounds() const { return rounds_; }

 private:
  enum class What { kStepped, kCopied, kPassed, kJoined, kSummed, kWoken };
  struct Event {
    absl::Time time;
    int64_t number = 0;
    What what = What::kStepped;
    int rank = 0;
    bool operator<(const Event& other) const {  // The greatest is the next.
      return time != other.time ? time > other.time : number > other.number;
    }
  };
  struct Rank {
    explicit Rank(const SlipstreamRank& machine_in) : machine(machine_in) {}

    SlipstreamRank machine;
    ComputeOrder compute;
    CommOrder comm;
    bool computes = false;
    bool communicates = false;
    int64_t begun = 0;
    absl::Duration took;  // The step under way.
    absl::Time frozen_until = absl::InfinitePast();
    absl::Time wakes_at = absl::InfiniteFuture();
  };

  void Later(absl::Duration delay, What what, int rank);
  void Pump(int rank);
  void PumpCompute(int rank);
  void PumpComm(int rank);
  void Happen(const Event& event);
  void EndPass(Rank& rank);
  void EndCollective();

  const OwnSteps& steps_;
  const SlipstreamCosts costs_;
  absl::Time now_ = absl::UnixEpoch();
  int64_t events_ = 0;
  std::priority_queue<Event> queue_;
  std::vector<Rank> ranks_;
  // State of the one collective that is under way.
  std::vector<double> sums_;
  int joined_ = 0;
  int64_t rounds_ = 0;
};

}  // namespace paceline

#endif  // BENCH_SLIPSTREAM_SIMULATION_H_
