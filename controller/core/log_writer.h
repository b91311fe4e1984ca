// Whose log is that of a rank: which trainers write it, one after the other.
//
// A reader begins with the trainer that has the rank, and from then on stays with its seat
// (membership.h), so that a job that shrinks does not change what the readers of the other ranks
// read. A new start gives out the seats anew, and then the rank counts again.
#ifndef CONTROLLER_CORE_LOG_WRITER_H_
#define CONTROLLER_CORE_LOG_WRITER_H_

#include "common/core/ids.h"
#include "controller/core/job.h"

namespace paceline {

// What a reader of a rank's log reads.
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

#endif  // CONTROLLER_CORE_LOG_WRITER_H_
