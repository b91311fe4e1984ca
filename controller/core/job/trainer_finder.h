// Finds a trainer by its identity in a worker's message, or by the rank whose log is read.
//
// Thread-compatible.
#ifndef CONTROLLER_CORE_JOB_TRAINER_FINDER_H_
#define CONTROLLER_CORE_JOB_TRAINER_FINDER_H_

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "common/core/ids.h"
#include "controller/core/job/job.h"

namespace paceline {

// Finds trainers by their identity, for one message of a worker. The message may name thousands,
// and even such as do not exist.
//
// Most trainers have the rank that they were started for and are found there. For another, all
// trainers of its job are searched; but after kScans searches a table is made of a job's trainers,
// once. So a message does not cost its names times the ranks of a job.
//
// Use one only while the jobs do not change.
class TrainerFinder {
 public:
  static constexpr int kScans = 16;  // Usually enough for a node; for few a table does not pay.

  // Null: the job has no trainer of that identity. Requires: the identity names this job.
  const RankState* Find(const Job& job, const TrainerId& id);

 private:
  using Table = absl::flat_hash_map<std::pair<Generation, Rank>, const RankState*>;

  const Table& TableOf(const Job& job);

  int scans_ = 0;
  absl::flat_hash_map<const Job*, Table> tables_;
};

// A reader of a rank's log, and which trainer it reads; trainers write the log one after the other.
//
// A reader begins with the trainer that has the rank and then stays with that trainer's seat
// (membership.h), so that a shrinking job does not change what the readers of other ranks read. A
// new start assigns the seats anew, and then the rank counts again.
struct LogReader {
  Rank rank;          // The rank that was asked for.
  TrainerId trainer;  // Whose log is read; generation 0: none yet.
  int seat = 0;       // The trainer's seat when it was found.
};

// The trainer that has the reader's seat in the job; null: nobody. Valid until the job changes.
const RankState* WriterFor(const Job& job, const LogReader& reader);

// Whether the reader's trainer may still write what belongs to the rank: it has the seat, or had it
// and trains on until another has taken over, or stands by while the seat is empty.
bool MayWrite(const Job& job, const LogReader& reader);

}  // namespace paceline

#endif  // CONTROLLER_CORE_JOB_TRAINER_FINDER_H_
