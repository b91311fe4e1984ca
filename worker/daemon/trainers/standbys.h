// The node's standby interpreters: one for each rank of a watched command that may be started
// again. It has imported what the rank imported (python/paceline/standby.py). The rank's next start
// uses it if it has the same command, rank and environment as before.
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
  // `script`: path of standby.py; empty: no interpreters stand by.
  explicit Standbys(std::string script) : script_(std::move(script)) {}

  // Starts missing interpreters once their ranks have made a step, one at a time, since importing
  // takes a core from training. Ends those whose job has had no trainer here for half a minute.
  // Call it ten times a second. `now`: BootNow.
  void Poll(const std::map<TrainerId, NodeTrainer>& trainers, absl::Time now);

  // Turns the standby interpreter of `trainer` into `command` and returns its process; nothing if
  // none stood by.
  std::optional<TrainerProcess> Start(const NodeTrainer& trainer,
                                      const TrainerProcess::Command& command);

  // Text for TrainerReport.standby.
  std::string Tell(const NodeTrainer& trainer) const;

 private:
  using Key = std::pair<std::string, int>;  // Job and rank.
  struct Standby {
    int64_t generation = 0;                 // Of the rank for which it was started.
    std::vector<std::string> program;       // Of that rank.
    std::string environment;                // Of that rank.
    std::optional<StandbyProcess> process;  // Empty: `reported` says why.
    bool ready = false;
    std::string reported;
    absl::Time needed;  // When its job last had a trainer here.
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
