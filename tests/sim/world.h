// All parts of one history. Each knows the world, and through it the others.
#ifndef TESTS_SIM_WORLD_H_
#define TESTS_SIM_WORLD_H_

#include <map>
#include <memory>
#include <vector>

#include "common/core/ids.h"
#include "tests/sim/coverage.h"
#include "tests/sim/disk.h"
#include "tests/sim/network.h"
#include "tests/sim/random.h"
#include "tests/sim/settings.h"
#include "tests/sim/timeline.h"
#include "tests/sim/trace.h"

namespace paceline::sim {

class CopyJudge;
class ElasticJudge;
class Observer;
class ReplicaJudge;
class SimController;
class SimNode;
class StragglerJudge;
class Training;

// What the ranks of a job do.
struct JobFacts {
  int ranks = 1;
  int shards = 1;
  int64_t mean_period = 0;  // Steps between two means of parameters; 0: all share each step.
  int64_t steps = 1;
  int64_t every_steps = 0;  // Between saves.
  int64_t copy_every = 0;   // Steps between copies of the states; 0: there are none.
  std::string directory;    // Of its checkpoints; empty: none.
  Micros step_time = 0;     // Mean.
  Micros collective_timeout = 0;
  Micros give_up = 0;
  bool recovers = false;

  double jitter = 0.2;  // Steps differ from the mean by at most this share of it.
  double stalls = 0;    // Probability of a stall per rank and step; not waited for with a ladder.
  double stall = 0;     // Length of a stall, in steps.
};

struct World {
  World(uint64_t seed, size_t kept_lines);
  ~World();

  Random random;
  Settings settings;
  Timeline time;
  Trace trace;
  Coverage coverage;
  Disk disk;
  std::map<JobId, JobFacts> jobs;
  std::unique_ptr<Network> network;
  std::unique_ptr<Observer> observer;
  std::unique_ptr<StragglerJudge> straggler_judge;
  std::unique_ptr<ReplicaJudge> replica_judge;
  std::unique_ptr<CopyJudge> copy_judge;
  std::unique_ptr<ElasticJudge> elastic_judge;
  std::unique_ptr<SimController> controller;
  std::unique_ptr<Training> training;
  std::vector<std::unique_ptr<SimNode>> nodes;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_WORLD_H_
