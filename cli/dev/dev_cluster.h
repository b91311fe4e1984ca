// A whole cluster on this machine: a controller and some workers, each a separate daemon.
//
// Only one `DevCluster` works on a folder at a time: it holds the folder's lock. Thread-compatible.
#ifndef CLI_DEV_DEV_CLUSTER_H_
#define CLI_DEV_DEV_CLUSTER_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/dev/dev_dir.h"
#include "common/state_lock/state_lock.h"

namespace paceline {

class DevCluster {
 public:
  // Creates the folder if missing. FailedPrecondition if another command is working on it.
  static absl::StatusOr<DevCluster> Open(const DevDir& dir);

  // Starts what is not running: the controller, then workers up to `settings.workers`. Each may
  // take up to `timeout` to serve. `bin_dir`: folder of the programs. Returns the names of those
  // started. FailedPrecondition if workers run with another number of slots. After an error, what
  // was started keeps running.
  absl::StatusOr<std::vector<std::string>> Start(const DevSettings& settings,
                                                 const std::string& bin_dir,
                                                 absl::Duration timeout);

  // Ends the daemons and all their trainers, and removes the runtime directory. Returns the number
  // of processes ended. State and logs stay.
  absl::StatusOr<int> Stop(absl::Duration grace);

  // Removes state and logs too. Requires: stopped.
  absl::Status Purge();

 private:
  DevCluster(DevDir dir, StateLock lock) : dir_(std::move(dir)), lock_(std::move(lock)) {}

  absl::Status MakeDirectories();
  absl::Status StartDaemon(const DaemonPlace& place, std::vector<std::string> arguments,
                           absl::Duration timeout);

  DevDir dir_;
  StateLock lock_;
};

// Folder of the running program, which also has the other programs.
std::string ProgramDir();

}  // namespace paceline

#endif  // CLI_DEV_DEV_CLUSTER_H_
