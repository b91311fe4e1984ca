// Measures the node when the controller asks for it: runs paceline-probe, one at a time.
//
// Runs on the loop.
#ifndef WORKER_DAEMON_CHECKS_NODE_CHECK_H_
#define WORKER_DAEMON_CHECKS_NODE_CHECK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "proto/node.pb.h"
#include "worker/daemon/checks/run_program.h"
#include "worker/daemon/side_threads.h"

namespace paceline {

// What the probe told (worker/trainer/check/measurement.h), as far as it came. `trainers` ran
// beside it, which is a measurement, too, if there were any: "trainers_beside". The result's error
// is what could not be measured, and why, as one line.
v1::NodeCheckResult ToCheckResult(const absl::StatusOr<ProgramEnd>& end, int trainers);

class NodeCheck {
 public:
  struct Options {
    std::string program;                   // Path of paceline-probe.
    std::string dir;                       // On the disk to measure.
    std::vector<std::string> environment;  // "KEY=value".
    absl::Duration limit = absl::Seconds(25);
  };

  // `trainers` tells how many run; `on_result` is called when Result has changed. `threads`
  // outlives this object.
  NodeCheck(Options options, SideThreads& threads, std::function<int()> trainers,
            std::function<void()> on_result);
  NodeCheck(const NodeCheck&) = delete;
  NodeCheck& operator=(const NodeCheck&) = delete;

  // The check of the latest plan; nothing: none is wanted, and no result is kept.
  void SetWanted(std::optional<v1::NodeCheckRequest> wanted);

  // Of the one that is wanted, once it is done.
  const std::optional<v1::NodeCheckResult>& Result() const { return result_; }

 private:
  void StartNext();

  const Options options_;
  SideThreads& threads_;
  const std::function<int()> trainers_;
  const std::function<void()> on_result_;

  std::optional<v1::NodeCheckRequest> wanted_;
  std::optional<v1::NodeCheckResult> result_;
  bool running_ = false;
};

}  // namespace paceline

#endif  // WORKER_DAEMON_CHECKS_NODE_CHECK_H_
