// A whole cluster on this machine: a controller and some workers, each a daemon of its own.
//
// One `DevCluster` at a time works on a folder: it holds the folder's lock.
// Thread-compatible.
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
  // Makes the folder if it is missing. FailedPrecondition when another command works on it.
  static absl::StatusOr<DevCluster> Open(const DevDir& dir);

  // Starts what does not run: the controller, then workers up to `settings.workers`. Each
  // has `timeout` to serve. `bin_dir`: where the programs lie. Returns the names of those
  // that were started. FailedPrecondition when workers run with another number of slots.
  // What had been started runs on after an error.
  absl::StatusOr<std::vector<std::string>> Start(const DevSettings& settings,
                                                 const std::string& bin_dir,
                                                 absl::Duration timeout);

  // Ends the daemons, then every trainer that they left, and removes the runtime directory.
  // Returns the number of processes ended. State and logs stay.
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

// Folder of the running program, where its siblings lie.
std::string ProgramDir();

}  // namespace paceline

#endif  // CLI_DEV_DEV_CLUSTER_H_
