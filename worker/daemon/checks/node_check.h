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

// Converts the probe's output (worker/trainer/check/measurement.h), as far as it got. If
// `trainers`, the number of trainers that ran beside it, is above 0, the result has the measurement
// "trainers_beside". The result's error says on one line what could not be measured, and why.
v1::NodeCheckResult ToCheckResult(const absl::StatusOr<ProgramEnd>& end, int trainers);

class NodeCheck {
 public:
  struct Options {
    std::string program;                   // Path of paceline-probe.
    std::string dir;                       // Directory on the disk to measure.
    std::vector<std::string> environment;  // "KEY=value".
    absl::Duration limit = absl::Seconds(25);
  };

  // `trainers` returns how many trainers run. `on_result` is called when Result() has changed.
  // `threads` must outlive this object.
  NodeCheck(Options options, SideThreads& threads, std::function<int()> trainers,
            std::function<void()> on_result);
  NodeCheck(const NodeCheck&) = delete;
  NodeCheck& operator=(const NodeCheck&) = delete;

  // `wanted` is the check of the latest plan. If empty, the result is discarded.
  void SetWanted(std::optional<v1::NodeCheckRequest> wanted);

  // Result of the wanted check; empty until it is done.
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
