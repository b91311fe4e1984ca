// One history: the cluster of a seed, the faults in it, and whether all invariants hold.
#ifndef TESTS_SIM_HISTORY_H_
#define TESTS_SIM_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>

namespace paceline::sim {

struct Outcome {
  std::string failure;                      // The invariant that was violated; empty: none.
  std::deque<std::string> events;           // The newest, at most kept_events.
  int64_t steps = 0;                        // Events that happened.
  double seconds = 0;                       // Simulated.
  std::map<std::string, int64_t> coverage;  // Counts by kind of event.
};

// `standbys`: whether other controllers answer while the controller is away; else nobody does.
Outcome RunHistory(uint64_t seed, size_t kept_events, bool standbys = false);

// Runs the cluster of a seed with one fault only: while its jobs train, nobody leads for `seconds`
// seconds. The controllers stand by and say so (`standbys`), or none answers. Besides the
// invariants, no job may be disturbed by that, or lost.
Outcome RunOutage(uint64_t seed, double seconds, bool standbys, size_t kept_events);

// Text for people about a seed that has failed.
std::string Describe(uint64_t seed, size_t kept_events);

}  // namespace paceline::sim

#endif  // TESTS_SIM_HISTORY_H_
