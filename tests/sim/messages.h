// The messages between controller and daemons (proto/worker.proto), in core's types.
#ifndef TESTS_SIM_MESSAGES_H_
#define TESTS_SIM_MESSAGES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "controller/core/checkpoint/checkpoint_tasks.h"
#include "controller/core/job/trainer_state.h"
#include "controller/core/node/node.h"
#include "worker/trainer/core/copy_keeper.h"

namespace paceline::sim {

// The plan that ranks train by.
struct TakenPlan {
  int64_t version = 0;
  bool waits_less = false;  // By a ladder, or by Slipstream.
};

// TrainerPlan.
struct TrainerOrder {
  TrainerId id;
  int slot = 0;
  std::optional<absl::Duration> stop;
  int64_t version = 0;
  int64_t save_order = 0;
  std::vector<int64_t> commit_steps;
  std::string restore_from;
  bool save_stacks = false;
  bool leased = false;
  bool waits_less = false;  // Of the plan of `version`.

  // Membership.
  int64_t generation = 0;
  int rank = -1;
  int world_size = 0;
  int shards = 1;
  std::string store_address;
  bool planned = false;
  int hand_over = -1;  // Membership::hand_over
  bool averages_first = false;
  bool mean_failed = false;  // In the planned change before this one, which was called off.
  CopyOrders copies;         // Of generation 0: none.

  friend bool operator==(const TrainerOrder& a, const TrainerOrder& b) {
    return std::tie(a.id, a.slot, a.stop, a.version, a.save_order, a.commit_steps, a.restore_from,
                    a.save_stacks, a.leased, a.waits_less) ==
               std::tie(b.id, b.slot, b.stop, b.version, b.save_order, b.commit_steps,
                        b.restore_from, b.save_stacks, b.leased, b.waits_less) &&
           std::tie(a.generation, a.rank, a.world_size, a.shards, a.store_address, a.planned,
                    a.hand_over, a.averages_first, a.mean_failed, a.copies) ==
               std::tie(b.generation, b.rank, b.world_size, b.shards, b.store_address, b.planned,
                        b.hand_over, b.averages_first, b.mean_failed, b.copies);
  }
};

// NodePlan.
struct NodeOrders {
  std::vector<TrainerOrder> trainers;
  std::vector<CheckpointTask> tasks;

  friend bool operator==(const NodeOrders& a, const NodeOrders& b) {
    return a.trainers == b.trainers && a.tasks == b.tasks;
  }
};

// NodeReport.
struct Report {
  int64_t number = 0;
  std::vector<TrainerReport> trainers;
  std::vector<CheckpointTaskResult> results;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_MESSAGES_H_
