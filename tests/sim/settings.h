// The settings that a seed gives a history: how large the cluster is, and which faults happen how
// often. Each kind of fault is left out in half of the histories, so that the other kinds also
// occur without it.
#ifndef TESTS_SIM_SETTINGS_H_
#define TESTS_SIM_SETTINGS_H_

#include <cstdint>

#include "tests/sim/random.h"
#include "tests/sim/timeline.h"

namespace paceline::sim {

struct Settings {
  int nodes = 0;
  int jobs = 0;
  int shards = 1;        // Ranks of a replica, in all jobs.
  bool elastic = false;  // Most jobs are.
  Micros lease = 0;      // Of a node; 0: none.
  bool encoded = false;  // Stored state goes through the encoding of the real store.
  // While the controller is away, others stand by: each answers nodes that nobody leads.
  bool standbys = false;

  int64_t steps = 1;  // Factor on the steps of each job.

  Micros look_per_rank = 20;  // LookThrottle's; with much more small jobs count as large ones.

  Micros quiet = 0;  // From then on no faults and no requests by people.
  Micros end = 0;

  // Mean times between two faults of a kind in the whole cluster; kNever: they do not happen.
  Micros controller_crash = kNever;
  Micros daemon_crash = kNever;
  Micros host_crash = kNever;
  Micros trainer_crash = kNever;
  Micros trainer_freeze = kNever;
  Micros host_freeze = kNever;
  Micros session_break = kNever;
  Micros control_cut = kNever;  // Between a node and the controller, one way or both.
  Micros job_cut = kNever;      // Between all nodes of a job and the controller, at once.
  Micros data_cut = kNever;     // Between two nodes.
  Micros wall_jump = kNever;
  Micros trainer_hang = kNever;  // In its own computation.
  Micros sigterm = kNever;       // To a trainer, by somebody outside.

  // Probabilities.
  double host_loses_disk = 0;
  double start_fails = 0;
  double store_fails = 0;      // Per batch.
  double crash_at_commit = 0;  // Of the controller between storing and sending.
  double save_fails = 0;       // Per shard.
  double recovers = 0;         // Of jobs.
  // Of changes, planned ones and those after a loss: something that takes part in it dies.
  double interrupts = 0;
  double interrupted_losses = 0;
  double swaps = 0;       // Of holds: that they are drains by swap.
  double task_fails = 0;  // Of a node in a checkpoint directory.
  double repeated_message = 0;
  double checkpoint_damage = 0;  // Per checkpoint.
  // Per rendezvous of a sharded model in which ranks get a state: a member dies meanwhile.
  double transfer_deaths = 0;
  uint64_t transfer_seed = 0;

  Micros control_delay = 0;           // Mean.
  Micros store_delay = 0;             // Mean.
  Micros disk_delay = 0;              // Mean, of a shard.
  Micros between_requests = 0;        // About jobs.
  Micros between_holds = kNever;      // Requests about nodes.
  Micros between_automatic = kNever;  // Drains by the automation.

  // Jobs with many short steps on many nodes report them, and some nodes are slow. The fields below
  // are for such histories only.
  bool stragglers = false;
  uint64_t straggler_seed = 0;
  int max_slots = 4;                // Of a node.
  Micros slowdown = kNever;         // Of a node.
  Micros half_slow = kNever;        // Half of the nodes, at once.
  Micros nonsense = kNever;         // A daemon reports it for a while.
  Micros between_advices = kNever;  // Advice that people apply.
  Micros between_pauses = kNever;   // Of the automation, and their ends.
  double plan_fails = 0;            // A plan version cannot be prepared.
  double steps_lost = 0;            // Per message with steps.
  double steps_late = 0;
  double steps_repeated = 0;
};

// A seed's settings. `random`: the history's, which goes on from there.
Settings DrawSettings(Random& random, uint64_t seed);

}  // namespace paceline::sim

#endif  // TESTS_SIM_SETTINGS_H_
