// Finds trainers of jobs by their identity, for one message of a worker: it may name thousands, and
// none that there is.
//
// Most trainers have the rank that they were started for, and are found there. For one that has not
// the trainers of its job are gone through, but not for each: after kScans of them a table is made
// of a job's trainers, once. So a message does not cost its names times the ranks of a job.
//
// Thread-compatible. To be used while the jobs stay as they are.
#ifndef CONTROLLER_CORE_TRAINER_FINDER_H_
#define CONTROLLER_CORE_TRAINER_FINDER_H_

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/core/ids.h"
#include "controller/core/job.h"

namespace paceline {

class TrainerFinder {
 public:
  static constexpr int kScans = 16;  // More than a node mostly needs: for few a table does not pay.

  // Null: the job has none of that identity. Requires: it is the job that the identity names.
  const RankState* Find(const Job& job, const TrainerId& id);

 private:
  using Table = absl::flat_hash_map<std::pair<Generation, Rank>, const RankState*>;

  const Table& TableOf(const Job& job);

  int scans_ = 0;
  absl::flat_hash_map<const Job*, Table> tables_;
};

}  // namespace paceline

#endif  // CONTROLLER_CORE_TRAINER_FINDER_H_
