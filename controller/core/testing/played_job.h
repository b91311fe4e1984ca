// A job with a checkpoint directory, whose ranks the test plays: rank 0 on node a, rank 1 on node
// b.
#ifndef CONTROLLER_CORE_TESTING_PLAYED_JOB_H_
#define CONTROLLER_CORE_TESTING_PLAYED_JOB_H_

#include <string>
#include <utility>
#include <vector>

#include "controller/core/job/job.h"

namespace paceline {

Moment At(double seconds);

SaveStatus Reported(int64_t step, SaveState state, int64_t order = 0);

JobRequest PlayedRequest();

// A report from the job's present generation.
TrainerReport PlayedReport(const Job& job, int rank, TrainerState state);

JobChange Tell(Job& job, const TrainerReport& report, Moment now);

void PlaceOnBoth(Job& job, Moment now);

void RunPlaced(Job& job, Moment now);

Job RunningJob(JobRequest request = PlayedRequest());

JobChange TellSaves(Job& job, int rank, std::vector<SaveStatus> saves, Moment now);

// Both ranks save after the step, and rank 0 commits the save.
void SaveAll(Job& job, int64_t step, Moment now, int64_t order = 0);

void Exit(Job& job, int rank, FailureKind failure, const std::string& message, Moment now);

// Rank 1 fails, and rank 0 is stopped.
void FailRank1(Job& job, FailureKind failure, Moment now);

}  // namespace paceline

#endif  // CONTROLLER_CORE_TESTING_PLAYED_JOB_H_
