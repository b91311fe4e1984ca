// What a node keeps in its state directory: who it is, and the dirs of its trainers. The
// directory is locked by common/state_lock.
//
// Errors, each with an exit code of its own (StateExitCode): PermissionDenied: missing and
// cannot be made, read-only, or somebody else's; FailedPrecondition: another process holds it;
// DataLoss: damaged; OutOfRange: written by a newer version; ResourceExhausted: the disk is
// full. Nothing is overwritten then.
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

// What the node knows of itself: `node.json`. Thread-compatible.
class NodeIdentity {
 public:
  // Reads the file, or makes one with a new uid when the state directory is new.
  static absl::StatusOr<NodeIdentity> Load(const NodePaths& paths);

  const std::string& node_uid() const { return node_uid_; }
  // Empty before the node has joined one.
  const std::string& cluster_id() const { return cluster_id_; }

  // Writes the file.
  absl::Status Join(const std::string& cluster_id);

 private:
  explicit NodeIdentity(std::string path) : path_(std::move(path)) {}
  absl::Status Read(const std::string& text);
  absl::Status Write() const;

  std::string path_;
  std::string node_uid_;
  std::string cluster_id_;
};

// Lets nobody else list or change the state directory, nor pass through it, but for
// `trainers_pass`: trainers of another user do. PermissionDenied when it belongs to somebody else,
// or all others could write it: what is in it may be theirs.
absl::Status CloseStateDir(const std::string& path, bool trainers_pass);

// The trainers that have a dir, the least recently changed first.
absl::StatusOr<std::vector<TrainerId>> ListTrainerDirs(const NodePaths& paths);

// Takes away at once what lies in the trainers' dir, a trainer's dir or a job's code: under another
// name it waits for RemoveDirsAside, of this daemon or a later one. A trainer may have left a
// million files, and any depth, in it. One that is missing is away already.
absl::Status SetDirAside(const std::string& dir);

// Removes what was set aside, in turns of some thousand entries each, until `stop`. Follows no
// link. What cannot be removed is told in the log and left. May take minutes.
void RemoveDirsAside(const NodePaths& paths, const std::atomic<bool>& stop);

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_STATE_DIR_H_
