// What the average of a job's parameters over a group of ranks costs, by the size of the group.
//
// Sizes that were measured cost what was measured: a mean that forgets. Others follow a ring
// all-reduce of n ranks, in which 2 (n - 1) messages of an nth of the bytes follow one another,
//
//   cost(n) = 2 (n - 1) latency + 2 (n - 1) / n transfer
//
// whose two parameters are fitted by least squares of the relative error, neither below 0. A single
// size does not tell them apart: then the cost is the greater of all latency and of as much
// transfer as the bytes sent can have taken, so that it is rather taken too high than too low.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_COST_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_COST_H_

#include <map>

namespace paceline {

class AllReduceCosts {
 public:
  // Of one all-reduce, from when the last rank came to its end, in which a rank sent so many bytes;
  // 0: not known. What is no time or no group changes nothing.
  void Add(int ranks, double seconds, double sent_bytes = 0);

  // Nothing was measured: all costs are 0.
  bool empty() const { return measured_.empty(); }

  // Seconds. 0 for a group of one.
  double Of(int ranks) const;

 private:
  std::map<int, double> measured_;  // By ranks; above 1.
  double sent_bytes_ = 0;           // In the latest of which they are known.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_COST_H_
