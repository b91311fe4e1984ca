#include "controller/core/testing/played_job.h"

#include <utility>

namespace paceline {

Moment At(double seconds) {
  return {absl::UnixEpoch() + absl::Seconds(seconds),
          absl::FromUnixSeconds(1700000000) + absl::Seconds(seconds)};
}

SaveStatus Reported(int64_t step, SaveState state, int64_t order) {
  SaveStatus status;
  status.step = step;
  status.order = order;
  status.state = state;
  status.bytes = 100;
  if (state == SaveState::kFailed) {
    status.failure = SaveFailure::kNoSpace;
    status.error = "the disk is full";
  }
  return status;
}

JobRequest PlayedRequest() {
  JobRequest request;
  request.id = JobId("job-1");
  request.name = "digits";
  request.ranks = 2;
  request.spec = "spec";
  request.steps = 1000;
  request.checkpoints.directory = "/ckpt";
  return request;
}

TrainerReport PlayedReport(const Job& job, int rank, TrainerState state) {
  TrainerReport report;
  report.id = {job.request.id, job.generation, Rank(rank)};
  report.state = state;
  report.pid = 100 * job.generation.value() + rank;
  report.store_address = "a:1";
  return report;
}

JobChange Tell(Job& job, const TrainerReport& report, Moment now) {
  return ApplyReport(job, NodeName(report.id.rank == Rank(0) ? "a" : "b"), report, now);
}

void PlaceOnBoth(Job& job, Moment now) {
  PlaceJob(job, {{NodeName("a"), 0}, {NodeName("b"), 0}}, now);
}

void RunPlaced(Job& job, Moment now) {
  for (int rank = 0; rank < 2; ++rank) {
    Tell(job, PlayedReport(job, rank, TrainerState::kRunning), now);
  }
}

Job RunningJob(JobRequest request) {
  Job job = NewJob(std::move(request), 1, At(0));
  PlaceOnBoth(job, At(1));
  RunPlaced(job, At(2));
  return job;
}

JobChange TellSaves(Job& job, int rank, std::vector<SaveStatus> saves, Moment now) {
  TrainerReport report = PlayedReport(job, rank, TrainerState::kRunning);
  report.saves = std::move(saves);
  return Tell(job, report, now);
}

void SaveAll(Job& job, int64_t step, Moment now, int64_t order) {
  for (int rank = 0; rank < 2; ++rank) {
    TellSaves(job, rank, {Reported(step, SaveState::kDurable, order)}, now);
  }
  TellSaves(job, 0, {Reported(step, SaveState::kCommitted, order)}, now);
}

void Exit(Job& job, int rank, FailureKind failure, const std::string& message, Moment now) {
  TrainerReport report = PlayedReport(job, rank, TrainerState::kExited);
  report.exit = TrainerExit();
  report.exit->failure = failure;
  report.exit->message = message;
  Tell(job, report, now);
}

void FailRank1(Job& job, FailureKind failure, Moment now) {
  Exit(job, 1, failure, "killed by signal 9", now);
  Exit(job, 0, FailureKind::kNone, "", now);
}

}  // namespace paceline
