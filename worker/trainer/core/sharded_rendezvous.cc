#include "worker/trainer/core/sharded_rendezvous.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/core/lanes.h"

namespace paceline {
namespace {

using What = Transfer::What;

constexpr RankRange kAllRanks{0, std::numeric_limits<int>::max()};

bool Trained(const RankPosition& one) { return one.generation > 0; }

// Whether it has trained, or has given up its state for that of somebody who had.
bool KnowsOfTraining(const RankPosition& one) {
  return Trained(one) || (one.step < 0 && one.decided > 0);
}

// Whether the exchange after its steps has changed its parameters, if there was one.
bool IsExchanged(const RankPosition& one) { return one.exchanged && !one.left_out; }

// The newest generation whose decision the rank has carried out.
int64_t Decided(const RankPosition& one) { return std::max(one.generation, one.decided); }

// Each rule sees what the rules before it have left.
class ShardedRendezvous {
 public:
  ShardedRendezvous(const std::vector<RankPosition>& reported, int shards, bool has_groups)
      : reported_(reported),
        lanes_{shards},
        has_groups_(has_groups),
        ranks_(reported),
        holds_(reported.size(), false),
        whole_(static_cast<size_t>(replicas()), false) {}

  void FindHolders();
  void SettleSteps();
  void SettleExchanges();
  void SettleEnd();
  void TakeFreshParts();
  void CompleteReplicas();
  absl::Status CheckWhole() const;
  // The replicas as ranks of a job without shards, whose layouts are kSameLayout if they have not
  // changed.
  std::vector<RankPosition> Fold(const std::vector<uint64_t>& layouts) const;
  RendezvousDecision Unfold(const RendezvousDecision& folded);

  static constexpr uint64_t kSameLayout = 1;
  int replicas() const { return lanes_.ReplicasIn(size()); }

 private:
  using IsThrough = std::function<bool(const RankPosition& other)>;

  int size() const { return static_cast<int>(reported_.size()); }
  const RankPosition& Reported(int rank) const { return reported_[static_cast<size_t>(rank)]; }
  RankPosition& at(int rank) { return ranks_[static_cast<size_t>(rank)]; }
  const RankPosition& at(int rank) const { return ranks_[static_cast<size_t>(rank)]; }
  bool Holds(int rank) const { return holds_[static_cast<size_t>(rank)]; }
  bool HasBegun() const;
  // Whether the state that the rank has reported is of the position that it has now.
  bool IsOfPosition(int rank) const;
  // The greatest number of steps done by those that hold a state.
  int64_t Furthest() const;
  // A rank of `range` that got through what `rank` was cut off in; -1: none. Those that did without
  // being at the newest rendezvous of these ranks lose their states.
  int Source(int rank, const RankRange& range, const IsThrough& is_through);
  // Rule 0 for an exchange of the ranks in `range`, in which `rank` was cut off.
  bool TakesOwnMean(int rank, const RankRange& range, const IsThrough& is_through);
  // Whether two ranks have the states of one step, in one training.
  bool AreAlike(int a, int b) const;
  // The rank from which the replica of `held`, which has a state, gets this position; -1: none.
  // `uses`: how often each rank sends already.
  int SourceFor(int held, int position, const std::vector<int>& uses) const;
  RankPosition FoldReplica(int replica, const std::vector<uint64_t>& layouts) const;
  void Copy(int from, int to);

  const std::vector<RankPosition>& reported_;
  const Lanes lanes_;
  const bool has_groups_;            // Of replicas whose parameters may differ.
  std::vector<RankPosition> ranks_;  // As the rules have left them.
  std::vector<bool> holds_;          // By rank: it has reported a state that counts.
  std::vector<bool> whole_;          // By replica: its ranks have, or get, one state.
  std::vector<Transfer> transfers_;
};

bool ShardedRendezvous::HasBegun() const {
  return std::any_of(reported_.begin(), reported_.end(), KnowsOfTraining);
}

bool ShardedRendezvous::IsOfPosition(int rank) const {
  const int before = Reported(rank).rank;
  return before < 0 || lanes_.PositionOf(before) == lanes_.PositionOf(rank);
}

int64_t ShardedRendezvous::Furthest() const {
  int64_t furthest = -1;
  for (int rank = 0; rank < size(); ++rank) {
    if (Holds(rank)) furthest = std::max(furthest, at(rank).step);
  }
  return furthest;
}

// Who has trained in a generation knows that all its members had carried out its decision.
void ShardedRendezvous::FindHolders() {
  int64_t newest = 0;
  for (const RankPosition& one : reported_) newest = std::max(newest, one.generation);
  for (int rank = 0; rank < size(); ++rank) {
    holds_[static_cast<size_t>(rank)] =
        Trained(at(rank)) && Decided(at(rank)) >= newest && IsOfPosition(rank);
  }
}

int ShardedRendezvous::Source(int rank, const RankRange& range, const IsThrough& is_through) {
  int64_t authority = Decided(at(rank));
  std::vector<int> through;
  for (int other = 0; other < size(); ++other) {
    const RankPosition& one = Reported(other);
    if (!Holds(other) || one.generation != at(rank).generation || !range.Holds(one.rank)) continue;
    authority = std::max(authority, Decided(one));
    if (is_through(one)) through.push_back(other);
  }
  for (const int other : through) {
    if (Decided(Reported(other)) == authority) return other;
  }
  for (const int other : through) holds_[static_cast<size_t>(other)] = false;
  return -1;
}

// Rule 0 for steps. Who is ahead is so by one step: for the next one it would need this rank.
void ShardedRendezvous::SettleSteps() {
  for (int rank = 0; rank < size(); ++rank) {
    RankPosition& one = at(rank);
    if (!Holds(rank) || !one.exchanged) continue;
    const int from = Source(rank, one.gradients,
                            [&](const RankPosition& other) { return other.step > one.step; });
    if (from < 0) continue;
    if (!one.prepared) {  // The other one cannot have done a step that this one has a part in.
      holds_[static_cast<size_t>(rank)] = false;
      continue;
    }
    transfers_.push_back({What::kOwnStep, from, rank});
    ++one.step;
    one.exchanged = one.exchange.size <= 1;
    one.left_out = false;
  }
  for (RankPosition& one : ranks_) one.computed = one.prepared = false;
}

bool ShardedRendezvous::TakesOwnMean(int rank, const RankRange& range,
                                     const IsThrough& is_through) {
  const int from = Source(rank, range, is_through);
  if (from < 0) return false;
  const bool prepared = at(rank).mean_prepared;
  if (prepared) {
    transfers_.push_back({What::kOwnMean, from, rank});
  } else {  // As for steps.
    holds_[static_cast<size_t>(rank)] = false;
  }
  return prepared;
}

// Rule 0 for the exchanges after steps, and for the means of all beside them.
void ShardedRendezvous::SettleExchanges() {
  for (int rank = 0; rank < size(); ++rank) {
    RankPosition& one = at(rank);
    if (!Holds(rank)) continue;
    const auto is_through = [&](const RankPosition& other) {
      return other.step > one.step || (other.step == one.step && IsExchanged(other));
    };
    if (!IsExchanged(one) && !Reported(rank).prepared &&
        TakesOwnMean(rank, one.exchange, is_through)) {
      one.exchanged = true;
      one.gradients = RankRange();  // A new plan may begin with the next step.
      continue;
    }
    if (Holds(rank) && one.exchanged &&
        TakesOwnMean(rank, kAllRanks,
                     [&](const RankPosition& other) { return other.means > one.means; })) {
      ++one.means;
    }
  }
  for (RankPosition& one : ranks_) one.mean_prepared = false;
}

// The end of the training, which has a mean only if not all are equal without one.
void ShardedRendezvous::SettleEnd() {
  for (int rank = 0; rank < size(); ++rank) {
    RankPosition& one = at(rank);
    if (!Holds(rank) || !one.exchanged || one.final_mean) continue;
    one.final_mean = Source(rank, kAllRanks, [&](const RankPosition& other) {
                       return other.final_mean && other.step == one.step;
                     }) >= 0;
  }
}

// The state at the very beginning is as good from a rank that has not trained, for a position that
// nobody else holds: the rendezvous before was cut off when it had only begun some ranks' training.
void ShardedRendezvous::TakeFreshParts() {
  if (!HasBegun()) {
    int64_t furthest = 0;
    for (const RankPosition& one : reported_) furthest = std::max(furthest, one.step);
    for (int rank = 0; rank < size(); ++rank) {
      holds_[static_cast<size_t>(rank)] = at(rank).step == furthest && IsOfPosition(rank);
    }
    return;
  }
  const int64_t furthest = Furthest();
  for (int position = 0; furthest >= 0 && position < lanes_.shards; ++position) {
    int fresh = -1;
    bool held = false;
    for (int replica = replicas() - 1; replica >= 0; --replica) {
      const int rank = lanes_.RankOf(replica, position);
      held = held || Holds(rank);
      if (!Trained(at(rank)) && at(rank).step == furthest && IsOfPosition(rank)) fresh = rank;
    }
    if (!held && fresh >= 0) holds_[static_cast<size_t>(fresh)] = true;
  }
}

bool ShardedRendezvous::AreAlike(int a, int b) const {
  const RankPosition& one = at(a);
  const RankPosition& other = at(b);
  if (one.step != other.step || IsExchanged(one) != IsExchanged(other)) return false;
  if (!has_groups_ || !Trained(one) || !Trained(other)) return true;
  if (one.generation == other.generation &&
      (one.peers.Holds(other.rank) || other.peers.Holds(one.rank))) {
    return true;
  }
  if (one.decided > 0 && one.decided == other.decided &&
      lanes_.ReplicaOf(one.decided_rank) == lanes_.ReplicaOf(other.decided_rank)) {
    return true;
  }
  // They were one replica in a generation after which neither has made a step.
  const auto seats_of = [](const RankPosition& rank) {
    std::vector<std::pair<int64_t, int>> seats{{rank.generation, rank.rank}};
    if (rank.previous > 0 && rank.previous_step == rank.step) {
      seats.emplace_back(rank.previous, rank.previous_rank);
    }
    return seats;
  };
  for (const auto& a_seat : seats_of(one)) {
    for (const auto& b_seat : seats_of(other)) {
      if (a_seat.first == b_seat.first &&
          lanes_.ReplicaOf(a_seat.second) == lanes_.ReplicaOf(b_seat.second)) {
        return true;
      }
    }
  }
  return false;
}

int ShardedRendezvous::SourceFor(int held, int position, const std::vector<int>& uses) const {
  int source = -1;
  for (int replica = 0; replica < replicas(); ++replica) {
    const int rank = lanes_.RankOf(replica, position);
    if (!Holds(rank) || !AreAlike(held, rank)) continue;
    if (source < 0 || uses[static_cast<size_t>(rank)] < uses[static_cast<size_t>(source)]) {
      source = rank;
    }
  }
  return source;
}

void ShardedRendezvous::Copy(int from, int to) {
  transfers_.push_back({What::kAll, from, to});
  at(to) = at(from);
}

// Rules a and b. Only ranks that had a state before are sources.
void ShardedRendezvous::CompleteReplicas() {
  std::vector<int> uses(reported_.size(), 0);
  for (int replica = 0; replica < replicas(); ++replica) {
    int held = -1;
    bool whole = true;
    std::vector<int> missing;  // Positions.
    for (int position = 0; position < lanes_.shards; ++position) {
      const int rank = lanes_.RankOf(replica, position);
      if (!Holds(rank)) {
        missing.push_back(position);
      } else if (held < 0) {
        held = rank;
      } else {
        whole = whole && AreAlike(held, rank);
      }
    }
    std::vector<int> sources;
    for (const int position : missing) {
      sources.push_back(held < 0 ? -1 : SourceFor(held, position, uses));
      whole = whole && sources.back() >= 0;
    }
    whole_[static_cast<size_t>(replica)] = whole;
    for (size_t i = 0; whole && i < missing.size(); ++i) {
      ++uses[static_cast<size_t>(sources[i])];
      Copy(sources[i], lanes_.RankOf(replica, missing[i]));
    }
  }
}

// Rule d.
absl::Status ShardedRendezvous::CheckWhole() const {
  if (std::find(whole_.begin(), whole_.end(), true) != whole_.end()) return absl::OkStatus();
  for (int position = 0; position < lanes_.shards; ++position) {
    bool held = false;
    for (int replica = 0; replica < replicas(); ++replica) {
      held = held || Holds(lanes_.RankOf(replica, position));
    }
    if (held) continue;
    return absl::InternalError(absl::StrCat("position ", position,
                                            " has no holder: all ranks with this part of the model "
                                            "are lost; restart the job from its checkpoint"));
  }
  return absl::InternalError(
      "no replica of the model is left: each lacks a part that no replica equal to it has; restart "
      "the job from its checkpoint");
}

RankPosition ShardedRendezvous::FoldReplica(int replica,
                                            const std::vector<uint64_t>& layouts) const {
  RankPosition folded;
  if (!whole_[static_cast<size_t>(replica)]) return folded;
  folded = at(lanes_.RankOf(replica, 0));
  folded.generation = HasBegun() ? 1 : 0;
  // What ranks and ranges are for is settled.
  folded.rank = -1;
  folded.gradients = folded.exchange = RankRange();
  folded.layout = kSameLayout;
  for (int position = 0; position < lanes_.shards; ++position) {
    const int rank = lanes_.RankOf(replica, position);
    const RankPosition& one = at(rank);
    folded.final_mean = folded.final_mean || one.final_mean;
    folded.evaluated = std::min(folded.evaluated, one.evaluated);
    folded.alone_below = std::max(folded.alone_below, one.alone_below);
    const bool kept = Holds(rank) && Trained(one);
    if (kept && one.layout != layouts[static_cast<size_t>(rank)]) folded.layout = 0;
  }
  return folded;
}

std::vector<RankPosition> ShardedRendezvous::Fold(const std::vector<uint64_t>& layouts) const {
  std::vector<RankPosition> folded;
  for (int replica = 0; replica < replicas(); ++replica) {
    folded.push_back(FoldReplica(replica, layouts));
  }
  return folded;
}

RendezvousDecision ShardedRendezvous::Unfold(const RendezvousDecision& folded) {
  for (const Transfer& one : folded.transfers) {
    if (one.what != What::kAll) continue;  // Only that the last mean is done has passed then.
    for (int position = 0; position < lanes_.shards; ++position) {
      Copy(lanes_.RankOf(one.from, position), lanes_.RankOf(one.to, position));
    }
  }
  RendezvousDecision decision = folded;
  decision.begins = folded.begins && transfers_.empty();
  decision.transfers = transfers_;
  decision.positions = ranks_;
  for (int rank = 0; rank < size(); ++rank) {
    const RankPosition& replica = folded.positions[static_cast<size_t>(lanes_.ReplicaOf(rank))];
    RankPosition& one = decision.positions[static_cast<size_t>(rank)];
    one.left_out = replica.exchanged && (one.left_out || !one.exchanged);
    one.exchanged = replica.exchanged;
    one.final_mean = replica.final_mean;
    one.evaluated = replica.evaluated;
    one.alone_below = replica.alone_below;
  }
  return decision;
}

}  // namespace

absl::StatusOr<RendezvousDecision> DecideShardedRendezvous(
    const std::vector<RankPosition>& reported, const std::vector<uint64_t>& layouts,
    const std::vector<std::vector<int>>& groups, int shards) {
  if (shards < 1 || reported.empty() || reported.size() % static_cast<size_t>(shards) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(reported.size(), " ranks are no whole replicas of ", shards, " shards"));
  }
  ShardedRendezvous rendezvous(reported, shards, !groups.empty());
  rendezvous.FindHolders();
  rendezvous.SettleSteps();
  rendezvous.SettleExchanges();
  rendezvous.SettleEnd();
  rendezvous.TakeFreshParts();
  rendezvous.CompleteReplicas();
  const absl::Status whole = rendezvous.CheckWhole();
  if (!whole.ok()) return whole;
  const std::vector<uint64_t> same(static_cast<size_t>(rendezvous.replicas()),
                                   ShardedRendezvous::kSameLayout);
  return rendezvous.Unfold(DecideRendezvous(rendezvous.Fold(layouts), same, groups));
}

}  // namespace paceline
