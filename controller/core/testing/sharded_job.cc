#include "controller/core/testing/sharded_job.h"

namespace paceline {

JobRequest ShardedRequest(int replicas, int shards, int spares) {
  JobRequest request = MemberRequest(replicas * shards);
  request.shards = shards;
  request.spares = spares;
  request.recovery.max_failures = 100;
  request.recovery.min_ranks = shards;
  request.recovery.rule = BatchRule::kKeepRank;
  return request;
}

void LoseRanks(MemberJob& played, const std::vector<int>& ranks, double at) {
  const std::vector<RankState> members = played.job.ranks;
  for (const int rank : ranks) {
    const RankState& member = members.at(static_cast<size_t>(rank));
    TrainerReport report = member.report;
    report.state = TrainerState::kExited;
    report.exit = TrainerExit();
    report.exit->failure = FailureKind::kSignal;
    report.exit->message = "killed by SIGKILL";
    ApplyReport(played.job, member.slot.node, report, At(at));
  }
  played.Advance(at);
}

std::vector<int> RanksIn(unsigned set, int ranks) {
  std::vector<int> found;
  for (int rank = 0; rank < ranks; ++rank) {
    if ((set >> rank & 1U) != 0) found.push_back(rank);
  }
  return found;
}

int FirstSeat(const Job& job, const RankState& trainer) {
  const TrainerId& id = trainer.report.id;
  const bool is_first = id.generation == Generation(1) && id.rank.value() < job.request.ranks;
  return is_first ? id.rank.value() : -1;
}

}  // namespace paceline
