// The directory of the node's socket and rings, on a memory file system. The directory itself is
// locked, so no lock file remains. It is removed after its last trainer.
//
// Nobody else may list it or create or remove entries. When trainers run as another user, that
// user's group may pass through it to files of mode 0600 that the user owns.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_STATE_RUNTIME_DIR_H_
#define WORKER_DAEMON_STATE_RUNTIME_DIR_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace paceline {

class RuntimeDir {
 public:
  // Creates the directory and its parents if needed. Its mode becomes 0700; with `passing`, 0710
  // and that group. Errors as in state_dir.h. PermissionDenied also for a link, or when another
  // user owns it or others can write it, since they may own what is in it.
  static absl::StatusOr<RuntimeDir> Open(const std::string& path,
                                         std::optional<gid_t> passing = std::nullopt);

  RuntimeDir(RuntimeDir&& other) noexcept;
  RuntimeDir& operator=(RuntimeDir&& other) noexcept;
  // Removes the directory if it is empty.
  ~RuntimeDir();

 private:
  RuntimeDir(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  // Keeps the directory after this object; returns its path.
  std::string Release();

  int fd_;
  std::string path_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_RUNTIME_DIR_H_
