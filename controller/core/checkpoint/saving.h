// What becomes of the saves that the ranks of a job tell of.
//
//   all parts DURABLE ──▶ rank 0 may commit ──▶ COMMITTED: a checkpoint
//   a part FAILED or SKIPPED ──▶ the save has failed; when all ranks have told what became of
//   their parts, what they wrote is removed
//   rank 0 may commit, and tells of the save no more ──▶ nobody knows: settling will adopt it
//   a part WRITING with an error ──▶ the rank has done all steps, could not write what it must, and
//   tries again: the save goes on, and the error is shown
//   a part of a later order for the same step ──▶ all ranks save that state once more, elsewhere:
//   the save starts over, and what was told of the try before counts no more
//
// What ranks tell is complete and repeated; a repeat changes nothing. Saves are kept as long as a
// rank tells of them, so that none is counted twice.
#ifndef CONTROLLER_CORE_CHECKPOINT_SAVING_H_
#define CONTROLLER_CORE_CHECKPOINT_SAVING_H_

#include <cstdint>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

// Remnants of failed saves beyond so many are left to the settling of the generation.
inline constexpr size_t kMaxRemnants = 16;

// A generation that tells of more saves at once is not taken at its word.
inline constexpr size_t kMaxSaves = 64;

// Takes in what the rank's newest report tells of saves.
JobChange TakeSaves(Job& job, const RankState& rank, Moment now);

// The rank has done all steps and keeps its state, since what it must write cannot be written.
bool HoldsState(const RankState& rank);

// Steps of the saves that rank 0 may commit.
std::vector<int64_t> CommitSteps(const Job& job);

// The order by which the state after this step is saved; 0: the spec.
int64_t OrderOfSave(const Job& job, int64_t step);

// The generation has ended: what its saves have left where persons wanted them is to be removed.
// (The job's own directory is scanned.)
void LeaveSavesElsewhere(Job& job);

// Steps of the saves under way.
std::vector<int64_t> StepsUnderWay(const Job& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_CHECKPOINT_SAVING_H_
