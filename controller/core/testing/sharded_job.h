// Jobs of several ranks (member_job.h) whose model is sharded.
#ifndef CONTROLLER_CORE_TESTING_SHARDED_JOB_H_
#define CONTROLLER_CORE_TESTING_SHARDED_JOB_H_

#include <vector>

#include "controller/core/testing/member_job.h"

namespace paceline {

// Of a job that may shrink to one replica, and whose ranks keep their batches.
JobRequest ShardedRequest(int replicas, int shards, int spares = 0);

// The ranks fail at the same moment.
void LoseRanks(MemberJob& played, const std::vector<int>& ranks, double at);

// The ranks below `ranks` whose bits are set.
std::vector<int> RanksIn(unsigned set, int ranks);

// The seat in which the trainer began; -1: it began as a spare, or later.
int FirstSeat(const Job& job, const RankState& trainer);

}  // namespace paceline

#endif  // CONTROLLER_CORE_TESTING_SHARDED_JOB_H_
