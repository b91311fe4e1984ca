// The internals of a Group, for code that makes groups.
#ifndef WORKER_TRAINER_COMM_GROUP_PARTS_H_
#define WORKER_TRAINER_COMM_GROUP_PARTS_H_

#include <atomic>
#include <exception>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "absl/strings/string_view.h"
#include "worker/trainer/comm/group.h"
#include "worker/trainer/comm/node_sum.h"

namespace paceline {

// Runs a collective and turns its exceptions into CollectiveError.
template <typename F>
void Collective(absl::string_view name, F run) {
  try {
    run();
  } catch (const std::exception& error) {
    throw CollectiveError(name, error.what());
  }
}

struct Group::Parts {
  std::atomic<bool> aborted{false};  // Set before the backend is.
  c10::intrusive_ptr<c10d::Backend> backend;
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::unique_ptr<NodeSum> node_sum;  // Null: `group` does everything.
  bool for_copies = false;            // Its failures end nothing else (Groups::has_failed).
};

}  // namespace paceline

#endif  // WORKER_TRAINER_COMM_GROUP_PARTS_H_
