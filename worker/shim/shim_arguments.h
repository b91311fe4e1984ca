// The command line of paceline-shim (main.cc).
#ifndef WORKER_SHIM_SHIM_ARGUMENTS_H_
#define WORKER_SHIM_SHIM_ARGUMENTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "worker/shim/allowed_roots.h"
#include "worker/shim/confinement.h"

namespace paceline {

struct ShimArguments {
  std::string dir;
  std::string own_dir;
  int lock_fd = -1;
  std::vector<std::string> roots;
  std::vector<NamedPath> paths;
  Confinement confinement;
  // For a command.
  std::string working_directory;
  std::string environment_file;
  int64_t log_segment_bytes = 0;
  // For a standby.
  int standby_fd = -1;
  std::string standby_modules;
  char** program = nullptr;  // Ends with a null pointer.

  bool is_command() const { return !working_directory.empty(); }
  bool is_standby() const { return standby_fd >= 0; }
};

// False: it is not one that the daemon writes.
bool ParseShimArguments(int argc, char** argv, ShimArguments& arguments);

}  // namespace paceline

#endif  // WORKER_SHIM_SHIM_ARGUMENTS_H_
