// How the ranks of a job whose model is sharded stand to each other.
//
// A job of `ranks` processes and `shards` K has ranks / K replicas of the model, each of K ranks:
// rank r is position r mod K of replica r / K. The ranks of one position are a lane: they hold the
// same part of the model. With K = 1 each rank is a replica, and all of them are one lane.
#ifndef COMMON_CORE_LANES_H_
#define COMMON_CORE_LANES_H_

#include <vector>

namespace paceline {

struct Lanes {
  int shards = 1;  // >= 1.

  int ReplicaOf(int rank) const { return rank / shards; }
  int PositionOf(int rank) const { return rank % shards; }
  int RankOf(int replica, int position) const { return replica * shards + position; }
  // Of whole replicas only: what is left over is no replica.
  int ReplicasIn(int ranks) const { return ranks / shards; }

  // The ranks of `position` in each of `replicas`, in their order.
  std::vector<int> LaneOf(int position, const std::vector<int>& replicas) const {
    std::vector<int> ranks;
    ranks.reserve(replicas.size());
    for (int replica : replicas) {
      ranks.push_back(RankOf(replica, position));
    }
    return ranks;
  }
};

}  // namespace paceline

#endif  // COMMON_CORE_LANES_H_
