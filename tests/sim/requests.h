// Requests of people to the controller: jobs, and changes to them.
//
// Thread-compatible.
#ifndef TESTS_SIM_REQUESTS_H_
#define TESTS_SIM_REQUESTS_H_

#include <string>

#include "controller/core/cluster/cluster.h"
#include "tests/sim/world.h"

namespace paceline::sim {

class Requests {
 public:
  explicit Requests(World& world) : world_(world), random_(world.random.Fork()) {}

  // Submits the jobs, and makes requests from time to time until the quiet phase.
  void Start();

 private:
  void Submit(int number);
  void AskForSomething();
  void Cancel(const Job& job);
  void Resume(const Job& job);
  void Remove(const Job& job);

  World& world_;
  Random random_;
};

}  // namespace paceline::sim

#endif  // TESTS_SIM_REQUESTS_H_
