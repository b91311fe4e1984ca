#include "controller/core/testing/copying_job.h"

#include <vector>

namespace paceline {

MemberJob OneReplica() {
  JobRequest request = ShardedRequest(1, 3);
  request.recovery.copy_every_steps = 10;
  MemberJob played(request);
  played.slots.Add("x");
  played.slots.Add("y");
  return played;
}

MemberJob TwoReplicas() {
  JobRequest request = ShardedRequest(2, 2);
  request.recovery.copy_every_steps = 10;
  MemberJob played(request);
  played.slots.Add("x");
  CopyAll(played, 10, 2);
  return played;
}

JobChange TellCopies(MemberJob& played, int rank, int64_t copied, int64_t settled, double at) {
  TrainerReport report = played.Last(played.Id(rank));
  report.membership.copies = {played.job.generation, copied, settled, "", 0};
  return played.Tell(report, at);
}

void CopyAll(MemberJob& played, int64_t step, double at) {
  const int ranks = static_cast<int>(played.job.ranks.size());
  for (int rank = 0; rank < ranks; ++rank) TellCopies(played, rank, step, step, at);
}

void TrainOn(MemberJob& played, int64_t step, int64_t lost, double at) {
  const std::vector<RankState> members = played.job.ranks;
  for (const RankState& member : members) {
    TrainerReport report = played.Last(member.report.id);
    report.state = TrainerState::kRunning;
    report.store_address = "x:1";
    report.progress.step = step;
    report.membership = {};
    report.membership.generation = played.job.generation;
    report.membership.can_keep_copies = true;
    report.membership.copies = {played.job.generation, 0, 0, "", lost};
    played.Tell(report, at);
  }
}

}  // namespace paceline
