// What averaging a job's parameters over a group of ranks costs, by the size of the group.
//
// A measured size costs what was measured, as a mean that forgets. Others follow a ring all-reduce
// of n ranks, in which 2 (n - 1) messages, each an nth of the bytes, follow one another:
//
//   cost(n) = 2 (n - 1) latency + 2 (n - 1) / n transfer
//
// The two parameters are fitted by least squares of the relative error, neither below 0. One size
// alone cannot tell them apart. Then the cost is the greater of two: all latency, or as much
// transfer as the bytes sent can have taken. So it is rather too high than too low.
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_COST_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_COST_H_

#include <map>

namespace paceline {

class AllReduceCosts {
 public:
  // Takes in one all-reduce, timed from when the last rank came to its end. `sent_bytes`: what each
  // rank sent; 0: not known. Impossible times or groups change nothing.
  void Add(int ranks, double seconds, double sent_bytes = 0);

  // Whether nothing was measured; then all costs are 0.
  bool empty() const { return measured_.empty(); }

  // In seconds. 0 for a group of one.
  double Of(int ranks) const;

 private:
  std::map<int, double> measured_;  // By number of ranks, above 1.
  double sent_bytes_ = 0;           // In the latest all-reduce for which they are known.
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_COST_H_
