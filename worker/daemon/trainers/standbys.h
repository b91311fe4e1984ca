// The interpreters of a node that stand by: one for each rank of a watched command that may be
// started again, which has imported what the rank imported (python/paceline/standby.py). The rank's
// next start takes it, if it is as the one before: the same command, rank and environment.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_TRAINERS_STANDBYS_H_
#define WORKER_DAEMON_TRAINERS_STANDBYS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "worker/daemon/trainers/node_trainer.h"
#include "worker/daemon/trainers/trainer_process.h"

namespace paceline {

class Standbys {
 public:
  // `script`: path of standby.py; empty: none ever stands by.
  explicit Standbys(std::string script) : script_(std::move(script)) {}

  // Starts those that are missing, once their rank has made a step, and one after the other, since
  // importing takes a core from who trains; ends those whose job has had no trainer here for half a
  // minute. To be called ten times a second. `now`: BootNow.
  void Poll(const std::map<TrainerId, NodeTrainer>& trainers, absl::Time now);

  // The process of `command`, which `trainer` is about to be, by the interpreter that stood by for
  // it. Nothing: none did.
  std::optional<TrainerProcess> Start(const NodeTrainer& trainer,
                                      const TrainerProcess::Command& command);

  // For TrainerReport.standby.
  std::string Tell(const NodeTrainer& trainer) const;

 private:
  using Key = std::pair<std::string, int>;  // Job and rank.
  struct Standby {
    int64_t generation = 0;                 // Of the rank beside which it was started.
    std::vector<std::string> program;       // Of that one.
    std::string environment;                // Of that one.
    std::optional<StandbyProcess> process;  // Without it, `told` says why.
    bool ready = false;
    std::string told;
    absl::Time needed;  // When the job last had a trainer here.
  };

  static Key KeyOf(const NodeTrainer& trainer);
  void ReadNews();
  void StartMissing(const NodeTrainer& trainer, absl::Time now);
  void End(Standby& standby);
  bool IsImporting() const;

  const std::string script_;
  std::map<Key, Standby> standbys_;
  std::vector<TrainerProcess> ending_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_TRAINERS_STANDBYS_H_
