// Which trainer is meant: by its identity in a worker's message, or by the rank whose log is read.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_JOB_TRAINER_FINDER_H_
#define CONTROLLER_CORE_JOB_TRAINER_FINDER_H_

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/core/ids.h"
#include "controller/core/job/job.h"

namespace paceline {

// Finds trainers of jobs by their identity, for one message of a worker: it may name thousands, and
// none that there is.
//
// Most trainers have the rank that they were started for, and are found there. For one that has not
// the trainers of its job are gone through, but not for each: after kScans of them a table is made
// of a job's trainers, once. So a message does not cost its names times the ranks of a job.
//
// To be used while the jobs stay as they are.
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

// What a reader of a rank's log reads: which trainers write it, one after the other.
//
// A reader begins with the trainer that has the rank, and from then on stays with its seat
// (membership.h), so that a job that shrinks does not change what the readers of the other ranks
// read. A new start gives out the seats anew, and then the rank counts again.
struct LogReader {
  Rank rank;          // That was asked for.
  TrainerId trainer;  // Whose log is read; generation 0: none yet.
  int seat = 0;       // The trainer's, when it was found.
};

// The trainer that has the reader's place in the job; null: nobody. Valid until the job changes.
const RankState* WriterFor(const Job& job, const LogReader& reader);

// Whether the reader's trainer may still write what belongs to the rank: it has the place, or had
// it and trains on until another has taken it over, or stands by while the place is empty.
bool MayWrite(const Job& job, const LogReader& reader);

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_TRAINER_FINDER_H_
