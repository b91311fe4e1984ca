// One history: the cluster that a seed makes, what breaks in it, and whether all invariants hold.
#ifndef TESTS_SIM_HISTORY_H_
#define TESTS_SIM_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace paceline::sim {

struct Outcome {
  std::string failure;                      // The invariant that did not hold; empty: all did.
  std::deque<std::string> events;           // The newest ones, as many as were to be kept.
  int64_t steps = 0;                        // Events that happened.
  double seconds = 0;                       // Simulated.
  std::map<std::string, int64_t> coverage;  // How often what happened.
};

// `standbys`: other controllers answer while the controller is away; else nobody does.
Outcome RunHistory(uint64_t seed, size_t kept_events, bool standbys = false);

// The cluster of a seed in which nothing breaks but this: while its jobs train, nobody leads for so
// many seconds. The controllers stand by and say so, or none answers. Besides the invariants, no
// job may have been disturbed by that, or lost.
Outcome RunOutage(uint64_t seed, double seconds, bool standbys, size_t kept_events);

// Of a seed that has failed: what to show people.
std::string Describe(uint64_t seed, size_t kept_events);

}  // namespace paceline::sim

#endif  // TESTS_SIM_HISTORY_H_
