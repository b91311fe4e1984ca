// The directory of the node's socket and rings, on a memory file system. It is locked (the
// directory itself, so that no file is left), and does not outlive its last trainer.
//
// Thread-compatible.
#ifndef WORKER_DAEMON_RUNTIME_DIR_H_
#define WORKER_DAEMON_RUNTIME_DIR_H_

#include <string>

#include "absl/status/statusor.h"

namespace paceline {

class RuntimeDir {
 public:
  // Creates the directory (mode 0700) and its parents if need be. Errors as in state_dir.h.
  static absl::StatusOr<RuntimeDir> Open(const std::string& path);

  RuntimeDir(RuntimeDir&& other) noexcept;
  RuntimeDir& operator=(RuntimeDir&& other) noexcept;
  // Removes the directory if it is empty.
  ~RuntimeDir();

 private:
  RuntimeDir(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_;
  std::string path_;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_RUNTIME_DIR_H_
