// Decides what to do with this node's trainers: compares what the controller wants with what
// exists.
//
//                 plan lists it                 plan wants it stopped, or does not list it
//      (none) ----------------------> RUNNING ---------------------------> STOPPING
//        ^  |                            |  ended                            |  ended
//        |  | listed with a stop         v                                   v
//        |  +-------------------------> ENDED <------------------------------+
//        +--------------------------------+
//            forgotten: a plan is known that does not list it
//
// A trainer is started at most once. To stop it, it is asked to end, and killed when its grace
// period is over. Nothing is stopped or forgotten before the first plan: trainers found at the
// daemon's start run on. The dirs of the latest forgotten trainers are kept for their logs.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_CORE_TRAINER_SET_H_
#define WORKER_DAEMON_CORE_TRAINER_SET_H_

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "common/core/ids.h"

namespace paceline {

// Events.

// A trainer dir was there when the daemon started.
struct TrainerFound {
  TrainerId id;
  bool alive = false;
  bool stop_requested = false;  // An earlier daemon was already ending it.
};
// A dir of a trainer that was forgotten before the daemon started. Send these oldest first.
struct OldDirFound {
  TrainerId id;
};
struct WantedTrainer {
  TrainerId id;
  std::optional<absl::Duration> stop;  // Set: stop it within this grace; zero: kill it at once.
};
// Everything that the controller wants.
struct PlanReceived {
  std::vector<WantedTrainer> trainers;
};
// The process is gone, or could not be started, and its end is on record.
struct TrainerEnded {
  TrainerId id;
};
using TrainerEvent = std::variant<TrainerFound, OldDirFound, PlanReceived, TrainerEnded>;

// Actions.

struct StartTrainer {
  TrainerId id;
};
// The trainer was stopped before it was started: put that on record.
struct SkipTrainer {
  TrainerId id;
};
struct TerminateTrainer {
  TrainerId id;
};
struct KillTrainer {
  TrainerId id;
};
// Leave the trainer out of reports; its dir stays.
struct ForgetTrainer {
  TrainerId id;
};
struct DeleteTrainerDir {
  TrainerId id;
};
using TrainerAction = std::variant<StartTrainer, SkipTrainer, TerminateTrainer, KillTrainer,
                                   ForgetTrainer, DeleteTrainerDir>;

class TrainerSet {
 public:
  struct Options {
    absl::Duration unlisted_grace = absl::Seconds(5);  // For trainers that a plan does not list.
    size_t kept_dirs = 32;                             // Number of dirs kept of forgotten trainers.
  };

  explicit TrainerSet(Options options) : options_(options) {}

  // Returns the actions to execute, in order.
  std::vector<TrainerAction> Step(const TrainerEvent& event, absl::Time now);

  // When to call Tick; InfiniteFuture when nothing is due.
  absl::Time NextDeadline() const;
  std::vector<TrainerAction> Tick(absl::Time now);

  // Whether we asked the trainer to end, so that its end is no failure.
  bool StopRequested(const TrainerId& id) const;

 private:
  enum class State { kRunning, kStopping, kEnded };
  struct Trainer {
    State state = State::kRunning;
    bool listed = true;  // In the latest plan; true before the first plan.
    absl::Time kill_at = absl::InfiniteFuture();
  };
  using Actions = std::vector<TrainerAction>;

  void OnFound(const TrainerFound& found);
  void OnPlan(const PlanReceived& plan, absl::Time now, Actions& actions);
  void OnWanted(const WantedTrainer& wanted, absl::Time now, Actions& actions);
  void OnEnded(const TrainerId& id, Actions& actions);
  static void Stop(const TrainerId& id, Trainer& trainer, absl::Duration grace, absl::Time now,
                   Actions& actions);
  void Forget(const TrainerId& id, Actions& actions);

  const Options options_;
  std::map<TrainerId, Trainer> trainers_;
  std::deque<TrainerId> old_;  // Forgotten trainers whose dirs are kept; oldest first.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_TRAINER_SET_H_
