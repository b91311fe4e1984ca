// Decides what to do with the trainers of this node: compares what the controller wants with
// what there is.
//
//                 plan lists it                 plan wants it stopped, or does not list it
//      (none) ----------------------> RUNNING ---------------------------> STOPPING
//        ^  |                            |  ended                            |  ended
//        |  | listed with a stop         v                                   v
//        |  +-------------------------> ENDED <------------------------------+
//        +--------------------------------+
//            forgotten: a plan is known that does not list it
//
// A trainer is started at most once. It is asked to end, and killed when its grace is over.
// Nothing is ended or forgotten before a plan was received: what is found at the start of the
// daemon runs on. The dirs of the latest forgotten trainers are kept, for their logs.
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
// The dir of a trainer that was forgotten before the daemon started. Oldest first.
struct OldDirFound {
  TrainerId id;
};
struct WantedTrainer {
  TrainerId id;
  std::optional<absl::Duration> stop;  // The grace; zero: kill at once.
};
// Everything that the controller wants.
struct PlanReceived {
  std::vector<WantedTrainer> trainers;
};
// The process is gone, or could not be started, and how is on record.
struct TrainerEnded {
  TrainerId id;
};
using TrainerEvent = std::variant<TrainerFound, OldDirFound, PlanReceived, TrainerEnded>;

// Actions.

struct StartTrainer {
  TrainerId id;
};
// It shall end before it was ever started: put that on record.
struct SkipTrainer {
  TrainerId id;
};
struct TerminateTrainer {
  TrainerId id;
};
struct KillTrainer {
  TrainerId id;
};
// No more in reports; its dir stays.
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
    absl::Duration unlisted_grace = absl::Seconds(5);  // For those that a plan does not list.
    size_t kept_dirs = 32;                             // Dirs of forgotten trainers.
  };

  explicit TrainerSet(Options options) : options_(options) {}

  // The actions are to be executed in order.
  std::vector<TrainerAction> Step(const TrainerEvent& event, absl::Time now);

  // When Tick should be called; InfiniteFuture when nothing is due.
  absl::Time NextDeadline() const;
  std::vector<TrainerAction> Tick(absl::Time now);

  // Whether we asked it to end, so that its end is no failure.
  bool StopRequested(const TrainerId& id) const;

 private:
  enum class State { kRunning, kStopping, kEnded };
  struct Trainer {
    State state = State::kRunning;
    bool listed = true;  // By the latest plan; true before the first.
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
  std::deque<TrainerId> old_;  // Forgotten, dir kept; oldest first.
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CORE_TRAINER_SET_H_
