// Who holds which seat in the generation that follows a loss, until all seats are filled
// (next_generation.h).
#ifndef CONTROLLER_CORE_RECOVERY_SEAT_HOLDERS_H_
#define CONTROLLER_CORE_RECOVERY_SEAT_HOLDERS_H_

#include <string>
#include <vector>

#include "controller/core/job/job.h"
#include "controller/core/recovery/membership.h"

namespace paceline {

struct SeatHolders {
  NextGeneration next;
  std::vector<int> vacant;  // Seats, ascending.
  // Members of a sharded model without a seat, each with the one that it had: their replicas are
  // given up, or others have the state that belongs there.
  std::vector<RankState> given_up;
};

// Members that are left, and holders of before who come back; all other seats are vacant.
SeatHolders KeepHolders(Job job, Moment now);

// Seats the trainer in a vacant seat.
void Fill(SeatHolders& holders, int seat, RankState trainer);

// A trainer that is to be started for the seat.
RankState Newcomer(const Job& job, int seat, Slot slot, Moment now);

void SortBySeat(std::vector<RankState>& members);

// The greatest number of ranks, up to `ranks`, with which the job may go on; 0: with none.
int MayGoOnWith(const Job& job, int ranks);

// "the job goes on with 3 of 4 ranks".
std::string DescribeShrinking(const Job& job, int ranks);

// Whether a lost member may still end or come back, so that its slot could be used again.
bool MayReturn(const Job& job, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_RECOVERY_SEAT_HOLDERS_H_
