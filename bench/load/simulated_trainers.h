// The trainers of a simulated node: they do what the node's plan says, like real ones, but do not
// train. Each makes steps at a given rate; their records are kept until they are sent.
//
//   STARTING ──kStartUp──▶ READY ──the plan has a store──▶ RUNNING ──all steps──▶ FINISHED
//       ╰───────────────────────────── a stop ──────────────────╯──────▶ EXITED ◀──╯
//
// Times are steady. Thread-compatible.
#ifndef BENCH_LOAD_SIMULATED_TRAINERS_H_
#define BENCH_LOAD_SIMULATED_TRAINERS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "proto/worker.pb.h"

namespace paceline {

class SimulatedTrainers {
 public:
  static constexpr absl::Duration kStartUp = absl::Milliseconds(300);
  // worker/daemon/trainers/ring_tail.h.
  static constexpr int64_t kMaxKept = 4096;
  static constexpr int64_t kMaxBatch = 1024;

  explicit SimulatedTrainers(double steps_per_second) : steps_per_second_(steps_per_second) {}

  void SetPlan(const v1::NodePlan& plan, absl::Time now);

  // Advances to `now`. True: a change should be reported at once.
  bool Advance(absl::Time now);

  // What the daemon would report.
  void Report(absl::Time now, v1::NodeReport* report) const;

  // Moves the records that were not sent yet to `steps`, which is empty before; returns how many.
  int64_t TakeSteps(v1::NodeSteps* steps);

  // Number of records dropped since the last call because too many were kept.
  int64_t TakeDropped();

  int running() const;

 private:
  struct Trainer {
    v1::TrainerPlan plan;
    v1::TrainerState state = v1::TRAINER_STARTING;
    absl::Time due;  // Time of its next state, if that is known.
    absl::Time trains_since = absl::InfinitePast();
    int64_t steps = 0;     // Steps done.
    int64_t reported = 0;  // Of those, sent or dropped.
  };

  bool AdvanceOne(Trainer& trainer, absl::Time now);
  void Describe(const Trainer& trainer, absl::Time now, v1::TrainerReport* report) const;
  void FillRecord(const Trainer& trainer, int64_t step, v1::StepRecord* record) const;

  const double steps_per_second_;
  std::map<std::string, Trainer> trainers_;  // By job, generation and rank.
  int64_t dropped_ = 0;
};

}  // namespace paceline

#endif  // BENCH_LOAD_SIMULATED_TRAINERS_H_
