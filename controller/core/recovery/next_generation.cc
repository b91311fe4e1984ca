#include "controller/core/recovery/next_generation.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/core/lanes.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

// Who holds which seat in the next generation, before free seats are filled.
struct Holders {
  NextGeneration next;
  std::vector<int> vacant;  // Seats, ascending.
  // Members without a seat, each with the one that it had: their replicas are given up, or others
  // have the state that belongs there.
  std::vector<RankState> given_up;
};

// Whether it may take back a seat that it held before a planned generation that failed.
bool MayComeBack(const Job& job, const RankState& leaver, const std::vector<int>& groups) {
  return leaver.seat != -1 && !leaver.stop.has_value() && !HasEnded(leaver) &&
         HasStateOfSeat(job, leaver, groups) && leaver.unreachable_since == absl::InfiniteFuture();
}

RankState* EarlierHolder(Job& job, int seat, const std::vector<int>& groups) {
  for (RankState& trainer : job.leaving) {
    if (trainer.seat == seat && MayComeBack(job, trainer, groups)) return &trainer;
  }
  return nullptr;
}

// By seat: whether a member is left in its group that certainly has the state.
std::vector<bool> HasHolder(const Job& job, const std::vector<int>& groups) {
  std::set<int> held;
  for (const RankState& member : job.ranks) {
    if (!IsLost(member) && HasStateOfSeat(job, member, groups)) {
      held.insert(groups[static_cast<size_t>(member.seat)]);
    }
  }
  std::vector<bool> has_holder;
  has_holder.reserve(groups.size());
  for (const int group : groups) has_holder.push_back(held.count(group) > 0);
  return has_holder;
}

// Gives free seats to leavers of the same groups.
void ComeBack(Job& job, const std::vector<int>& groups, const std::vector<bool>& has_holder,
              Holders& holders) {
  for (RankState& leaver : job.leaving) {
    if (!MayComeBack(job, leaver, groups) || has_holder[static_cast<size_t>(leaver.seat)]) continue;
    const auto seat = std::find_if(holders.vacant.begin(), holders.vacant.end(), [&](int vacant) {
      return groups[static_cast<size_t>(vacant)] == groups[static_cast<size_t>(leaver.seat)];
    });
    if (seat == holders.vacant.end()) continue;
    holders.next.members.push_back(leaver);
    holders.next.members.back().seat = *seat;
    holders.vacant.erase(seat);
    leaver.seat = -1;
  }
}

Holders KeepHolders(Job job, Moment now) {
  Holders holders;
  holders.next.spares = job.spares;
  const std::vector<int> groups = GroupsOfSeats(job);
  const std::vector<bool> has_holder = HasHolder(job, groups);
  for (RankState& member : job.ranks) {
    RankState* earlier = EarlierHolder(job, member.seat, groups);
    const bool may_have_state =
        HasStateOfSeat(job, member, groups) || !has_holder[static_cast<size_t>(member.seat)];
    if (!IsLost(member) && (may_have_state || earlier == nullptr)) {
      holders.next.members.push_back(std::move(member));
      continue;
    }
    const int seat = member.seat;
    if (!IsLost(member)) {
      member.seat = -1;
      holders.next.spares.push_back(std::move(member));
    } else if (!HasEnded(member)) {
      member.stop = StopOrder{absl::ZeroDuration(), now.steady};
      holders.next.leaving.push_back(std::move(member));
    }
    if (earlier == nullptr) {
      holders.vacant.push_back(seat);
    } else {
      holders.next.members.push_back(*earlier);
      earlier->seat = -1;
    }
  }
  ComeBack(job, groups, has_holder, holders);
  for (RankState& trainer : job.leaving) {
    if (!trainer.stop.has_value()) {
      if (trainer.seat == -1) continue;  // It is a member again.
      trainer.stop = StopOrder{kFailureGrace, now.steady};
    }
    holders.next.leaving.push_back(std::move(trainer));
  }
  return holders;
}

// Seats `trainer` in the vacant seat.
void Fill(Holders& holders, int seat, RankState trainer) {
  trainer.seat = seat;
  holders.next.members.push_back(std::move(trainer));
  holders.vacant.erase(std::find(holders.vacant.begin(), holders.vacant.end(), seat));
}

// Where the other members of the seat's replica are. A seat of an unsharded model has no others.
std::vector<Slot> SlotsOfReplica(const Job& job, const Holders& holders, int seat) {
  std::vector<Slot> slots;
  const Lanes lanes{job.request.shards};
  if (lanes.shards == 1) return slots;
  for (const RankState& member : holders.next.members) {
    if (lanes.ReplicaOf(member.seat) == lanes.ReplicaOf(seat)) slots.push_back(member.slot);
  }
  return slots;
}

// 0: the slot is on a node of the others, 1: in a rack of theirs, 2: elsewhere.
int DistanceTo(const std::vector<Slot>& others, const Slot& slot) {
  int distance = 2;
  for (const Slot& other : others) {
    if (other.node == slot.node) return 0;
    if (other.rack == slot.rack) distance = 1;
  }
  return distance;
}

int UsableSpares(const Job& job, const Holders& holders) {
  const auto& spares = holders.next.spares;
  return static_cast<int>(std::count_if(
      spares.begin(), spares.end(), [&](const RankState& spare) { return IsUsable(job, spare); }));
}

void TakeSpares(const Job& job, Holders& holders, std::vector<std::string>& outcomes) {
  auto& spares = holders.next.spares;
  std::stable_partition(spares.begin(), spares.end(), IsReady);
  while (!holders.vacant.empty()) {
    const int seat = holders.vacant.front();
    const std::vector<Slot> others = SlotsOfReplica(job, holders, seat);
    auto best = spares.end();
    for (auto spare = spares.begin(); spare != spares.end(); ++spare) {
      if (!IsUsable(job, *spare)) continue;
      const bool is_better = best == spares.end() ||
                             (IsReady(*spare) == IsReady(*best) &&
                              DistanceTo(others, spare->slot) < DistanceTo(others, best->slot));
      if (is_better) best = spare;
    }
    if (best == spares.end()) return;
    outcomes.push_back(absl::StrCat("a spare on ", best->slot.node.value(), " takes seat ", seat));
    RankState spare = std::move(*best);
    spares.erase(best);
    Fill(holders, seat, std::move(spare));
  }
}

RankState Newcomer(const Job& job, int seat, Slot slot, Moment now) {
  RankState newcomer;
  newcomer.report.id = {job.request.id, NextUnused(job), Rank(seat)};
  newcomer.slot = std::move(slot);
  newcomer.seat = seat;
  newcomer.progressed = now.steady;
  return newcomer;
}

// Makes members beyond `ranks` stand by, first those that have no state to give to others.
void StandBack(const Job& job, Holders& holders, int ranks) {
  auto& members = holders.next.members;
  while (static_cast<int>(members.size()) > ranks) {
    auto last = std::find_if(members.rbegin(), members.rend(),
                             [&](const RankState& member) { return !HasState(job, member); });
    if (last == members.rend()) last = members.rbegin();
    last->seat = -1;
    holders.next.spares.push_back(std::move(*last));
    members.erase(std::next(last).base());
  }
}

void SortBySeat(std::vector<RankState>& members) {
  std::sort(members.begin(), members.end(),
            [](const RankState& a, const RankState& b) { return a.seat < b.seat; });
}

// "replica 2 (ranks 4 to 5)", by the ranks of the present generation.
std::string DescribeReplica(const Job& job, int replica) {
  const Lanes lanes{job.request.shards};
  const auto first = std::find_if(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
    return lanes.ReplicaOf(member.seat) == replica;
  });
  const int rank = static_cast<int>(first - job.ranks.begin());
  return absl::StrCat("replica ", lanes.ReplicaOf(rank), " (ranks ", rank, " to ",
                      rank + lanes.shards - 1, ")");
}

// So many replicas, of those with the fewest vacant seats; the first ones of these.
std::set<int> StayingReplicas(const Job& job, const Holders& holders, int count) {
  const Lanes lanes{job.request.shards};
  std::map<int, int> holes;
  for (const RankState& member : holders.next.members) holes[lanes.ReplicaOf(member.seat)] += 0;
  for (const int seat : holders.vacant) ++holes[lanes.ReplicaOf(seat)];
  std::vector<std::pair<int, int>> order;
  order.reserve(holes.size());
  for (const auto& [replica, vacant] : holes) order.emplace_back(vacant, replica);
  std::sort(order.begin(), order.end());
  std::set<int> staying;
  for (const auto& [vacant, replica] : order) {
    if (static_cast<int>(staying.size()) < count) staying.insert(replica);
  }
  return staying;
}

// Leaves so many ranks, in whole replicas. Ranks without shards stand back one by one (StandBack).
void GiveUpReplicas(const Job& job, int ranks, Holders& holders,
                    std::vector<std::string>& outcomes) {
  const Lanes lanes{job.request.shards};
  if (lanes.shards == 1) return;
  const std::set<int> staying = StayingReplicas(job, holders, lanes.ReplicasIn(ranks));
  const auto stays = [&](int seat) { return staying.count(lanes.ReplicaOf(seat)) > 0; };
  std::set<int> given_up;
  std::vector<RankState> members;
  for (RankState& member : holders.next.members) {
    if (!stays(member.seat)) given_up.insert(lanes.ReplicaOf(member.seat));
    (stays(member.seat) ? members : holders.given_up).push_back(std::move(member));
  }
  holders.next.members = std::move(members);
  std::vector<int> vacant;
  for (const int seat : holders.vacant) {
    if (stays(seat)) {
      vacant.push_back(seat);
    } else {
      given_up.insert(lanes.ReplicaOf(seat));
    }
  }
  holders.vacant = std::move(vacant);
  for (const int replica : given_up) {
    outcomes.push_back(absl::StrCat(DescribeReplica(job, replica), " is given up"));
  }
}

// Gives the trainer a vacant seat, and says so.
void Rejoin(const Job& job, Holders& holders, int seat, RankState trainer,
            std::vector<std::string>& outcomes) {
  const Rank rank = RankOf(job, trainer);
  const std::string who = rank == Rank(-1) ? "a trainer" : absl::StrCat("rank ", rank.value());
  outcomes.push_back(absl::StrCat(who, " on ", trainer.slot.node.value(), " takes seat ", seat));
  Fill(holders, seat, std::move(trainer));
}

// Takes the trainer out, and leaves its seat, if it has one, to others.
RankState TakeOut(std::vector<RankState>& from, std::vector<RankState>::iterator trainer,
                  Holders& holders) {
  RankState taken = std::move(*trainer);
  from.erase(trainer);
  auto& vacant = holders.vacant;
  if (&from == &holders.next.members) {
    vacant.insert(std::lower_bound(vacant.begin(), vacant.end(), taken.seat), taken.seat);
  }
  return taken;
}

// Takes out a trainer that has the state of the group, but no seat there.
std::optional<RankState> TakeHolderOf(int group, const Job& job, const std::vector<int>& groups,
                                      Holders& holders) {
  NextGeneration& next = holders.next;
  for (auto* const from : {&holders.given_up, &next.spares, &next.members}) {
    const auto found = std::find_if(from->begin(), from->end(), [&](const RankState& trainer) {
      return GroupOfState(job, trainer, groups) == group &&
             (from != &next.spares || IsUsable(job, trainer));
    });
    if (found != from->end()) return TakeOut(*from, found, holders);
  }
  return std::nullopt;
}

// Groups with seats in the next generation of whose members none has their state.
std::set<int> GroupsWithoutHolder(const Job& job, const std::vector<int>& groups,
                                  const Holders& holders) {
  std::set<int> without;
  std::set<int> held;
  for (const int seat : holders.vacant) without.insert(groups[static_cast<size_t>(seat)]);
  for (const RankState& member : holders.next.members) {
    const int group = groups[static_cast<size_t>(member.seat)];
    (HasStateOfSeat(job, member, groups) ? held : without).insert(group);
  }
  for (const int group : held) without.erase(group);
  return without;
}

// Gives vacant seats to members of given-up replicas that have their state. Before, as far as
// anybody is left who has the state of a group that lacks it, one of these gets a seat there: a
// vacant one, or that of a member without the state. Without shards all have their own seats.
void SeatHolders(const Job& job, Holders& holders, std::vector<std::string>& outcomes) {
  if (job.request.shards == 1) return;
  const std::vector<int> groups = GroupsOfSeats(job);
  auto& members = holders.next.members;
  const auto group_of = [&](int seat) { return groups[static_cast<size_t>(seat)]; };
  for (const int group : GroupsWithoutHolder(job, groups, holders)) {
    std::optional<RankState> holder = TakeHolderOf(group, job, groups, holders);
    if (!holder.has_value()) continue;
    const auto is_there = [&](int seat) { return group_of(seat) == group; };
    if (std::none_of(holders.vacant.begin(), holders.vacant.end(), is_there)) {
      const auto member = std::find_if(members.begin(), members.end(), [&](const RankState& other) {
        return is_there(other.seat);
      });
      holders.given_up.push_back(TakeOut(members, member, holders));
    }
    const int seat = *std::find_if(holders.vacant.begin(), holders.vacant.end(), is_there);
    Rejoin(job, holders, seat, *std::move(holder), outcomes);
  }
  auto& survivors = holders.given_up;
  for (const int seat : std::vector<int>(holders.vacant)) {
    const auto holder =
        std::find_if(survivors.begin(), survivors.end(), [&](const RankState& survivor) {
          return GroupOfState(job, survivor, groups) == group_of(seat);
        });
    if (holder == survivors.end()) continue;
    Rejoin(job, holders, seat, TakeOut(survivors, holder, holders), outcomes);
  }
}

// Gives what is still vacant to other members of given-up replicas, first to those of the same
// position. The rest stands by.
void TakeOthers(const Job& job, Holders& holders, std::vector<std::string>& outcomes) {
  const Lanes lanes{job.request.shards};
  auto& survivors = holders.given_up;
  for (const bool same : {true, false}) {
    for (const int seat : std::vector<int>(holders.vacant)) {
      const auto found =
          std::find_if(survivors.begin(), survivors.end(), [&](const RankState& survivor) {
            return !same || lanes.PositionOf(survivor.seat) == lanes.PositionOf(seat);
          });
      if (found == survivors.end()) continue;
      Rejoin(job, holders, seat, TakeOut(survivors, found, holders), outcomes);
    }
  }
  for (RankState& survivor : survivors) {
    survivor.seat = -1;
    holders.next.spares.push_back(std::move(survivor));
  }
  survivors.clear();
}

// Starts up to `count` new trainers, each at the slot that is nearest to its replica.
void StartNewcomers(const Job& job, std::vector<Slot> slots, int count, Moment now,
                    Holders& holders, std::vector<std::string>& outcomes) {
  for (; count > 0 && !slots.empty() && !holders.vacant.empty(); --count) {
    const int seat = holders.vacant.front();
    const std::vector<Slot> others = SlotsOfReplica(job, holders, seat);
    const auto nearest =
        std::min_element(slots.begin(), slots.end(), [&](const Slot& a, const Slot& b) {
          return DistanceTo(others, a) < DistanceTo(others, b);
        });
    Slot slot = std::move(*nearest);
    slots.erase(nearest);
    outcomes.push_back(absl::StrCat("a new trainer on ", slot.node.value(), " takes seat ", seat));
    Fill(holders, seat, Newcomer(job, seat, std::move(slot), now));
  }
}

// The greatest number of ranks, up to `ranks`, with which the job may go on; 0: with none.
int MayGoOnWith(const Job& job, int ranks) {
  const RecoveryPolicy& policy = job.request.recovery;
  const int least = policy.min_ranks == 0 ? job.request.ranks : policy.min_ranks;
  const int possible = PossibleRanks(policy.rule, job.request.ranks, policy.batch, ranks,
                                     policy.least_samples, job.request.shards);
  return possible < least ? 0 : possible;
}

// Whether a lost member may still end or come back, so that its slot could be used again.
bool MayReturn(const Job& job, Moment now) {
  if (now.steady >= job.recovery.recovering_since + kReturn) return false;
  return std::any_of(job.ranks.begin(), job.ranks.end(),
                     [](const RankState& member) { return IsLost(member) && !HasEnded(member); });
}

// "waits for 2 slots", and with shards which replicas do.
std::string DescribeWait(const Job& job, const Holders& holders, int missing) {
  const std::string slots = absl::StrCat(missing, missing == 1 ? " slot" : " slots");
  const Lanes lanes{job.request.shards};
  if (lanes.shards == 1) return absl::StrCat("waits for ", slots);
  std::set<int> torn;
  for (const int seat : holders.vacant) torn.insert(lanes.ReplicaOf(seat));
  const std::string replicas = absl::StrJoin(torn, ", ", [&](std::string* out, int replica) {
    absl::StrAppend(out, DescribeReplica(job, replica));
  });
  return absl::StrCat(replicas, torn.size() == 1 ? " waits for " : " wait for ", slots);
}

}  // namespace

JobChange Replace(Job& job, const std::string& cause, const FindSlots& find_slots, Moment now) {
  std::vector<std::string> outcomes;
  Holders holders = KeepHolders(job, now);
  const int members = static_cast<int>(holders.next.members.size());
  const int vacant = static_cast<int>(holders.vacant.size());
  const int spares = std::min(vacant, UsableSpares(job, holders));
  const SlotUse use =
      MayGoOnWith(job, members + spares) > 0 ? SlotUse::kRank : SlotUse::kRankAnywhere;
  const int wanted = vacant - spares;
  std::vector<Slot> slots =
      wanted == 0 ? std::vector<Slot>() : find_slots(job, use, wanted, nullptr);
  const int missing = wanted - static_cast<int>(slots.size());
  int ranks = members + vacant;
  if (missing > 0) {
    ranks = MayGoOnWith(job, ranks - missing);
    if (ranks == 0 || MayReturn(job, now)) {
      const std::string reason = absl::StrCat(cause, "; ", DescribeWait(job, holders, missing));
      return std::exchange(job.reason, reason) == reason ? JobChange::kNone : JobChange::kState;
    }
    GiveUpReplicas(job, ranks, holders, outcomes);
  }
  SeatHolders(job, holders, outcomes);
  TakeSpares(job, holders, outcomes);
  if (missing > 0) {
    SortBySeat(holders.next.members);
    StandBack(job, holders, ranks);
    outcomes.push_back(
        absl::StrCat("the job goes on with ", ranks, " of ", job.request.ranks, " ranks"));
  }
  const int newcomers = ranks - static_cast<int>(holders.next.members.size());
  StartNewcomers(job, std::move(slots), newcomers, now, holders, outcomes);
  TakeOthers(job, holders, outcomes);
  SortBySeat(holders.next.members);
  holders.next.reason = outcomes.empty() ? absl::StrCat(cause, "; the members rendezvous again")
                                         : absl::StrCat(cause, "; ", absl::StrJoin(outcomes, ", "));
  BeginGeneration(job, std::move(holders.next), now);
  return JobChange::kState;
}

}  // namespace paceline
