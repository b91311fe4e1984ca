// What becomes of the saves that a job's ranks report.
//
//   all parts DURABLE ──▶ rank 0 may commit ──▶ COMMITTED: a checkpoint
//   a part FAILED or SKIPPED ──▶ the save has failed; when all ranks have reported the end of
//   their parts, what they wrote is removed
//   a rank trains on beyond the step without its part ──▶ it has failed there
//   rank 0 may commit, and no longer reports the save ──▶ nobody knows: settling will adopt it
//   a part WRITING with an error ──▶ the rank has done all steps but cannot write what it must, and
//   tries again: the save goes on, and the error is shown
//   a part of a later order for the same step ──▶ all ranks save that state again, elsewhere:
//   the save starts over, and reports of the earlier try no longer count
//
// Each report is complete and is repeated; a repeat changes nothing. A save is kept as long as a
// rank reports it, so that none is counted twice.
#ifndef CONTROLLER_CORE_CHECKPOINT_SAVING_H_
#define CONTROLLER_CORE_CHECKPOINT_SAVING_H_

#include <cstdint>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

// How many remnants of failed saves are noted; the generation's settling removes the others.
inline constexpr size_t kMaxRemnants = 16;

// How many saves at once are believed of one generation.
inline constexpr size_t kMaxSaves = 64;

// Takes in what the rank's newest report says about saves.
JobChange TakeSaves(Job& job, const RankState& rank, Moment now);

// Whether the rank has done all steps but keeps its state, because it cannot write what it must.
bool HoldsState(const RankState& rank);

// Steps of the saves that rank 0 may commit.
std::vector<int64_t> CommitSteps(const Job& job);

// The order by which the state after this step is saved; 0: the spec.
int64_t OrderOfSave(const Job& job, int64_t step);

// The generation has ended: notes for removal what its saves have left in directories that people
// chose. (The job's own directory is scanned.)
void LeaveSavesElsewhere(Job& job);

// Steps of the saves under way.
std::vector<int64_t> StepsUnderWay(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_SAVING_H_
