// The directory of the node's socket and rings, on a memory file system. It is locked (the
// directory itself, so that no file is left), and does not outlive its last trainer.
//
// Nobody else may list it, or make or remove what is in it; only who runs trainers as another user
// lets that user's group pass through, to files that have mode 0600 and belong to that user.
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
  // Creates the directory and its parents if need be. Its mode becomes 0700, with `passing` 0710
  // and that group. Errors as in state_dir.h; PermissionDenied also when it is a link, belongs to
  // another user, or others can write it: what is in it may be theirs then.
  static absl::StatusOr<RuntimeDir> Open(const std::string& path,
                                         std::optional<gid_t> passing = std::nullopt);

  RuntimeDir(RuntimeDir&& other) noexcept;
  RuntimeDir& operator=(RuntimeDir&& other) noexcept;
  // Removes the directory if it is empty.
  ~RuntimeDir();

 private:
  RuntimeDir(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  // Leaves the directory as it is. Its path.
  std::string Release();

  int fd_;
  std::string path_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_STATE_RUNTIME_DIR_H_
