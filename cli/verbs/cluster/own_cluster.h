// A cluster on this machine that lives as long as a command: of `paceline run` and `paceline
// drill`.
//
// Thread-compatible.
#ifndef CLI_VERBS_CLUSTER_OWN_CLUSTER_H_
#define CLI_VERBS_CLUSTER_OWN_CLUSTER_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "cli/dev/dev_cluster.h"
#include "cli/dev/dev_dir.h"
#include "cli/program.h"

namespace paceline {

class OwnCluster {
 public:
  OwnCluster() = default;
  OwnCluster(const OwnCluster&) = delete;
  OwnCluster& operator=(const OwnCluster&) = delete;
  // Ends it, with all its trainers, and removes its files.
  ~OwnCluster();

  // Starts it in a new temporary folder, whose name begins with `name`, and has the program's
  // requests go there. `program` outlives this.
  absl::Status Start(Program& program, const std::string& name, const DevSettings& settings);

  // Kills the controller / starts it again at the same address, and waits until all workers have
  // found it. Requires: started.
  absl::Status KillController();
  absl::Status StartController();

 private:
  Program* program_ = nullptr;
  DevDir dir_;
  DevSettings settings_;
  std::optional<DevCluster> cluster_;
};

// A terminal that is closed takes a cluster of the command's own along, as Ctrl-C does: once, since
// both the kernel and a shell may tell of it. Not where the user wants to outlive it (nohup).
void EndWithTheTerminal();

}  // namespace paceline

#endif  // CLI_VERBS_CLUSTER_OWN_CLUSTER_H_
