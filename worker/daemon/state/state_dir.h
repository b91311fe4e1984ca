// The contents of a node's state directory: the node's identity and the dirs of its trainers. The
// directory is locked by common/state_lock.
//
// Errors, each with its own exit code (StateExitCode): PermissionDenied: missing and cannot be
// created, read-only, or owned by another user; FailedPrecondition: locked by another process;
// DataLoss: damaged; OutOfRange: written by a newer version; ResourceExhausted: disk full. On an
// error nothing is overwritten.
#ifndef WORKER_DAEMON_STATE_STATE_DIR_H_
#define WORKER_DAEMON_STATE_STATE_DIR_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/core/ids.h"
#include "worker/daemon/state/node_paths.h"

namespace paceline {

// The node's record of itself, `node.json`. Thread-compatible.
class NodeIdentity {
 public:
  // Reads the file, or creates it with a new uid when the state directory is new.
  static absl::StatusOr<NodeIdentity> Load(const NodePaths& paths);

  const std::string& node_uid() const { return node_uid_; }
  // Empty before the node has joined a cluster.
  const std::string& cluster_id() const { return cluster_id_; }

  // Sets the cluster and writes the file.
  absl::Status Join(const std::string& cluster_id);

 private:
  explicit NodeIdentity(std::string path) : path_(std::move(path)) {}
  absl::Status Read(const std::string& text);
  absl::Status Write() const;

  std::string path_;
  std::string node_uid_;
  std::string cluster_id_;
};

// Bars others from listing, changing and passing through the state directory; with `trainers_pass`,
// trainers of another user may pass. PermissionDenied when another user owns it, or when everybody
// could write it, since others may own what is in it.
absl::Status CloseStateDir(const std::string& path, bool trainers_pass);

// Lists trainers that have a dir, least recently changed first.
absl::StatusOr<std::vector<TrainerId>> ListTrainerDirs(const NodePaths& paths);

// Takes an entry of the trainers' dir (a trainer's dir or a job's code) away at once by renaming
// it; RemoveDirsAside of this daemon or a later one deletes it, since a trainer may have left a
// million files at any depth. OK when it is missing.
absl::Status SetDirAside(const std::string& dir);

// Deletes what was set aside, some thousand entries at a time, until `stop`. Follows no links. Logs
// what cannot be removed and leaves it. May take minutes.
void RemoveDirsAside(const NodePaths& paths, const std::atomic<bool>& stop);

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_STATE_DIR_H_
