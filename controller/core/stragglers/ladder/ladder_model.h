// How long a job's steps take under a ladder, from the own times of its ranks.
//
//   t[i] = 0 for all ranks
//   for each step s = 1, 2, ...:  t[i] += own[s][i]
//                                 t[i] = max of t over the group of i, in the widest level whose
//                                        period divides s; over the gradient group otherwise
//
// At the steps that the last level's period divides, all t are equal. There a cycle ends, and
// cycles do not depend on one another. As levels are nested, a cycle is computed from the inside,
// without t. What a group of level l needs for its period is the largest, over the groups in it, of
// the sum of what these need for their shorter periods:
//
//   V_0[s][i] = own[s][i]        V_l[w][g] = max over i in g of (sum over v in w of V_{l-1}[v][i])
//
// Communication costs the same for all groups of a level, so it is added separately
// (ladder_planner.h).
//
// Pure. Thread-compatible.
#ifndef CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_MODEL_H_
#define CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "controller/core/stragglers/ladder/ladder_stalls.h"

namespace paceline {

struct ModelLevel {
  int64_t period = 1;       // Steps.
  std::vector<int> groups;  // Sizes of the groups of consecutive ranks.
};

class LadderModel {
 public:
  // Ranks of a gradient group wait for one another at each step; there may be no such groups.
  // Requires: group sizes add up to the ranks.
  LadderModel(const OwnTimes& times, const std::vector<int>& gradient_groups);

  // Seconds of each whole cycle. Empty: the levels are not nested (in periods or groups), the last
  // one does not have all ranks, or a cycle is longer than the times.
  std::vector<double> Cycles(const std::vector<ModelLevel>& levels);

  // Seconds of each step if all ranks wait for one another.
  const std::vector<double>& synchronous() const { return synchronous_; }

 private:
  struct Table {  // By windows of steps and groups.
    std::vector<int> groups;
    std::vector<double> values;  // [window * groups.size() + group].
  };

  // Sums over this many windows.
  static Table Sum(const Table& table, int64_t windows);
  // The largest value of each group; the table itself if the groups lie inside its own. No values:
  // the groups do not fit together.
  static Table Widen(const Table& table, const std::vector<int>& groups);
  const Table& FirstLevel(const ModelLevel& level);

  Table units_;  // By steps and gradient groups.
  std::vector<double> synchronous_;
  std::map<int64_t, Table> sums_;  // Sums of units_, by period.
  // A cache, since many ladders share their first level.
  std::map<std::pair<int64_t, std::vector<int>>, Table> first_levels_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_LADDER_LADDER_MODEL_H_
