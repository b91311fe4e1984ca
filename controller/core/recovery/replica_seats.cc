#include "controller/core/recovery/replica_seats.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/lanes.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/replica_domain.h"
#include "controller/core/recovery/replica_supply.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

class ReplicaSeats {
 public:
  // All are borrowed.
  ReplicaSeats(const Job& job, Moment now, SeatHolders& holders, std::vector<std::string>& outcomes)
      : job_(job),
        now_(now),
        lanes_{job.request.shards},
        widest_(WidestDomain(job)),
        groups_(GroupsOfSeats(job)),
        holders_(holders),
        outcomes_(outcomes) {}

  // As FillReplicas.
  std::optional<std::string> Fill(const FindSlots& find_slots);

 private:
  const std::vector<Slot>& OthersOf(int replica);
  void LeaveOtherDomains();
  bool MayHave(int seat, const Slot& slot);
  bool Suits(int seat, const Slot& slot, bool in_domain);
  void Seat(int seat, RankState trainer);
  void Rejoin(int seat, RankState trainer);
  RankState TakeOut(std::vector<RankState>& from, std::vector<RankState>::iterator trainer);
  void GiveUpAllBut(const std::set<int>& staying);
  void Give(int seat, std::vector<RankState>& from, std::vector<RankState>::iterator trainer);
  std::set<int> GroupsWithoutHolder() const;
  int FindSeat(int group, const Slot& slot);
  std::optional<std::string> SeatHolderOf(int group);
  bool HasOneState(int replica) const;
  struct Holder {
    std::vector<RankState>* from = nullptr;
    std::vector<RankState>::iterator trainer = {};
  };
  std::optional<Holder> FindHolder(int seat);
  bool MayHaveAll(int replica, int source);
  std::optional<std::string> SeatReplicaOf(int group);
  std::optional<std::string> KeepStates();
  void SeatThoseWithState();
  std::vector<int> VacantByHoles() const;
  void TakeSpares(bool in_domain);
  void StartNewcomers(bool in_domain);
  void TakeOthers();

  const Job& job_;
  const Moment now_;
  const Lanes lanes_;
  const Span widest_;
  const std::vector<int> groups_;
  SeatHolders& holders_;
  std::vector<std::string>& outcomes_;
  std::vector<Slot> slots_;  // Free ones that were found.
  // By replica: a slot in its domain, in which it stays even if its last member gets another seat.
  std::map<int, Slot> homes_;
  // By replica: where its members are; if there are none, its home, if it has one. Filled in as far
  // as it was asked for.
  std::map<int, std::vector<Slot>> others_;
};

const std::vector<Slot>& ReplicaSeats::OthersOf(int replica) {
  const auto [known, is_new] = others_.try_emplace(replica);
  if (is_new) {
    for (const RankState& member : holders_.next.members) {
      if (lanes_.ReplicaOf(member.seat) == replica) known->second.push_back(member.slot);
    }
    const auto home = homes_.find(replica);
    if (known->second.empty() && home != homes_.end()) known->second.push_back(home->second);
  }
  return known->second;
}

// If a move to another domain has failed, and only some came back from there, a replica goes on
// where most of its members may stay.
void ReplicaSeats::LeaveOtherDomains() {
  if (widest_ == Span::kAnywhere) return;
  std::map<int, std::map<DomainKey, int>> domains;  // By replica: members in each.
  for (const RankState& member : holders_.next.members) {
    int& count = domains[lanes_.ReplicaOf(member.seat)][KeyOf(widest_, member.slot)];
    count += IsUsable(job_, member) ? 1 : 0;
  }
  auto& members = holders_.next.members;
  for (const auto& [replica, counts] : domains) {
    if (counts.size() == 1) continue;
    const auto home =
        std::max_element(counts.begin(), counts.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    for (size_t m = members.size(); m-- > 0;) {
      if (lanes_.ReplicaOf(members[m].seat) != replica) continue;
      if (KeyOf(widest_, members[m].slot) == home->first) continue;
      const auto member = members.begin() + static_cast<int64_t>(m);
      holders_.given_up.push_back(TakeOut(members, member));
    }
  }
}

// Whether the slot's trainer may be in the seat's replica.
bool ReplicaSeats::MayHave(int seat, const Slot& slot) {
  return widest_ == Span::kAnywhere || SpanTo(OthersOf(lanes_.ReplicaOf(seat)), slot) <= widest_;
}

bool ReplicaSeats::Suits(int seat, const Slot& slot, bool in_domain) {
  if (!in_domain) return MayHave(seat, slot);
  const int replica = lanes_.ReplicaOf(seat);
  return SpanTo(OthersOf(replica), slot) <= DomainOfReplica(job_, replica);
}

void ReplicaSeats::Seat(int seat, RankState trainer) {
  const int replica = lanes_.ReplicaOf(seat);
  OthersOf(replica);
  others_[replica].push_back(trainer.slot);
  paceline::Fill(holders_, seat, std::move(trainer));
}

// Seats a trainer that has been a rank, and says so.
void ReplicaSeats::Rejoin(int seat, RankState trainer) {
  const Rank rank = RankOf(job_, trainer);
  const std::string who = rank == Rank(-1) ? "a trainer" : absl::StrCat("rank ", rank.value());
  outcomes_.push_back(absl::StrCat(who, " on ", trainer.slot.node.value(), " takes seat ", seat));
  Seat(seat, std::move(trainer));
}

// Takes the trainer out, and leaves its seat, if it is a member, to others.
RankState ReplicaSeats::TakeOut(std::vector<RankState>& from,
                                std::vector<RankState>::iterator trainer) {
  RankState taken = std::move(*trainer);
  from.erase(trainer);
  auto& vacant = holders_.vacant;
  if (&from == &holders_.next.members) {
    vacant.insert(std::lower_bound(vacant.begin(), vacant.end(), taken.seat), taken.seat);
    others_.erase(lanes_.ReplicaOf(taken.seat));
  }
  return taken;
}

void ReplicaSeats::GiveUpAllBut(const std::set<int>& staying) {
  const auto stays = [&](int seat) { return staying.count(lanes_.ReplicaOf(seat)) > 0; };
  for (const int replica : ReplicasByHoles(job_, holders_)) {
    if (staying.count(replica) > 0) continue;
    outcomes_.push_back(absl::StrCat(DescribeReplica(job_, replica), " is given up"));
  }
  auto& members = holders_.next.members;
  const auto gone = std::stable_partition(members.begin(), members.end(),
                                          [&](const RankState& m) { return stays(m.seat); });
  std::move(gone, members.end(), std::back_inserter(holders_.given_up));
  members.erase(gone, members.end());
  auto& vacant = holders_.vacant;
  vacant.erase(std::remove_if(vacant.begin(), vacant.end(), [&](int seat) { return !stays(seat); }),
               vacant.end());
}

// Seats one of `from`, in the place of the member that is there.
void ReplicaSeats::Give(int seat, std::vector<RankState>& from,
                        std::vector<RankState>::iterator trainer) {
  RankState holder = TakeOut(from, trainer);
  auto& members = holders_.next.members;
  const auto member = std::find_if(members.begin(), members.end(),
                                   [&](const RankState& m) { return m.seat == seat; });
  if (member != members.end()) holders_.given_up.push_back(TakeOut(members, member));
  Rejoin(seat, std::move(holder));
}

// Groups with seats in the next generation of whose members none has their state.
std::set<int> ReplicaSeats::GroupsWithoutHolder() const {
  std::set<int> without;
  std::set<int> held;
  for (const int seat : holders_.vacant) without.insert(groups_[static_cast<size_t>(seat)]);
  for (const RankState& member : holders_.next.members) {
    const int group = groups_[static_cast<size_t>(member.seat)];
    (HasStateOfSeat(job_, member, groups_) ? held : without).insert(group);
  }
  for (const int group : held) without.erase(group);
  return without;
}

// A seat of the group that the slot's trainer may have: a vacant one, else a member's; -1: none.
int ReplicaSeats::FindSeat(int group, const Slot& slot) {
  const auto suits = [&](int seat) {
    return groups_[static_cast<size_t>(seat)] == group && MayHave(seat, slot);
  };
  for (const int seat : holders_.vacant) {
    if (suits(seat)) return seat;
  }
  for (const RankState& member : holders_.next.members) {
    if (suits(member.seat)) return member.seat;
  }
  return -1;
}

// Seats somebody who has the state of a group of which no member has it: in a vacant seat, or in
// that of a member. Returns what is in the way if nobody who has it may be there.
std::optional<std::string> ReplicaSeats::SeatHolderOf(int group) {
  NextGeneration& next = holders_.next;
  std::optional<std::string> in_the_way;
  for (auto* const from : {&holders_.given_up, &next.spares, &next.members}) {
    for (auto trainer = from->begin(); trainer != from->end(); ++trainer) {
      const bool has_state = GroupOfState(job_, *trainer, groups_) == group &&
                             (from != &next.spares || IsUsable(job_, *trainer));
      if (!has_state) continue;
      const int seat = FindSeat(group, trainer->slot);
      if (seat == -1) {
        in_the_way =
            absl::StrCat("the state of position ", lanes_.PositionOf(group), " is only on node ",
                         trainer->slot.node.value(),
                         ", where no replica can be completed (placement.replica: require)");
        continue;
      }
      Give(seat, *from, trainer);
      return std::nullopt;
    }
  }
  return in_the_way;
}

// Whether its members have the parts of one replica's state.
bool ReplicaSeats::HasOneState(int replica) const {
  int parts = 0;
  std::set<int> sources;
  for (const RankState& member : holders_.next.members) {
    if (lanes_.ReplicaOf(member.seat) != replica) continue;
    const int seat = SeatOfState(job_, member);
    if (seat == -1 || lanes_.PositionOf(seat) != lanes_.PositionOf(member.seat)) return false;
    sources.insert(lanes_.ReplicaOf(seat));
    ++parts;
  }
  return parts == lanes_.shards && sources.size() == 1;
}

// Somebody who has the state of the seat.
std::optional<ReplicaSeats::Holder> ReplicaSeats::FindHolder(int seat) {
  NextGeneration& next = holders_.next;
  for (auto* const from : {&next.members, &holders_.given_up, &next.spares}) {
    const auto found = std::find_if(from->begin(), from->end(), [&](const RankState& trainer) {
      return (from != &next.spares || IsUsable(job_, trainer)) &&
             SeatOfState(job_, trainer) == seat;
    });
    if (found != from->end()) return Holder{from, found};
  }
  return std::nullopt;
}

// Whether all who have the state of replica `source` may be in this one.
bool ReplicaSeats::MayHaveAll(int replica, int source) {
  for (int position = 0; position < lanes_.shards; ++position) {
    const std::optional<Holder> holder = FindHolder(lanes_.RankOf(source, position));
    if (!MayHave(lanes_.RankOf(replica, position), holder->trainer->slot)) return false;
  }
  return true;
}

// If replicas differ, and none of those with seats in the group of a first position has one state:
// seats all who have the state of one replica in one replica. Returns as SeatHolderOf.
std::optional<std::string> ReplicaSeats::SeatReplicaOf(int group) {
  std::vector<int> replicas = ReplicasByHoles(job_, holders_);
  replicas.erase(std::remove_if(replicas.begin(), replicas.end(),
                                [&](int r) {
                                  return groups_[static_cast<size_t>(lanes_.RankOf(r, 0))] != group;
                                }),
                 replicas.end());
  if (std::any_of(replicas.begin(), replicas.end(), [&](int r) { return HasOneState(r); })) {
    return std::nullopt;
  }
  std::optional<std::string> in_the_way;
  for (int source = 0; source < lanes_.ReplicasIn(static_cast<int>(groups_.size())); ++source) {
    if (groups_[static_cast<size_t>(lanes_.RankOf(source, 0))] != group) continue;
    bool is_whole = true;
    for (int position = 0; position < lanes_.shards; ++position) {
      is_whole = is_whole && FindHolder(lanes_.RankOf(source, position)).has_value();
    }
    if (!is_whole) continue;
    for (const int replica : replicas) {
      if (!MayHaveAll(replica, source)) continue;
      for (int position = 0; position < lanes_.shards; ++position) {
        const int seat = lanes_.RankOf(replica, position);
        const std::optional<Holder> holder = FindHolder(lanes_.RankOf(source, position));
        const bool is_there =
            holder->from == &holders_.next.members && holder->trainer->seat == seat;
        if (!is_there) Give(seat, *holder->from, holder->trainer);
      }
      return std::nullopt;
    }
    in_the_way = absl::StrCat("the state of replica ", source,
                              " is only on nodes where no replica can be completed "
                              "(placement.replica: require)");
  }
  return in_the_way;
}

// Sees to it that each group keeps its state. Returns what is in the way.
std::optional<std::string> ReplicaSeats::KeepStates() {
  if (!ReplicasDiffer(job_)) {
    for (const int group : GroupsWithoutHolder()) {
      std::optional<std::string> in_the_way = SeatHolderOf(group);
      if (in_the_way.has_value()) return in_the_way;
    }
    return std::nullopt;
  }
  std::set<int> first_positions;
  for (const int replica : ReplicasByHoles(job_, holders_)) {
    first_positions.insert(groups_[static_cast<size_t>(lanes_.RankOf(replica, 0))]);
  }
  for (const int group : first_positions) {
    std::optional<std::string> in_the_way = SeatReplicaOf(group);
    if (in_the_way.has_value()) return in_the_way;
  }
  return std::nullopt;
}

// Gives vacant seats to members of given-up replicas that have their state.
void ReplicaSeats::SeatThoseWithState() {
  auto& survivors = holders_.given_up;
  for (const int seat : std::vector<int>(holders_.vacant)) {
    const auto holder =
        std::find_if(survivors.begin(), survivors.end(), [&](const RankState& survivor) {
          return GroupOfState(job_, survivor, groups_) == groups_[static_cast<size_t>(seat)] &&
                 MayHave(seat, survivor.slot);
        });
    if (holder != survivors.end()) Rejoin(seat, TakeOut(survivors, holder));
  }
}

std::vector<int> ReplicaSeats::VacantByHoles() const {
  std::vector<int> seats;
  for (const int replica : ReplicasByHoles(job_, holders_)) {
    std::copy_if(holders_.vacant.begin(), holders_.vacant.end(), std::back_inserter(seats),
                 [&](int seat) { return lanes_.ReplicaOf(seat) == replica; });
  }
  return seats;
}

void ReplicaSeats::TakeSpares(bool in_domain) {
  auto& spares = holders_.next.spares;
  std::stable_partition(spares.begin(), spares.end(), IsReady);
  for (const int seat : VacantByHoles()) {
    const int replica = lanes_.ReplicaOf(seat);
    auto best = spares.end();
    for (auto spare = spares.begin(); spare != spares.end(); ++spare) {
      if (!IsUsable(job_, *spare) || !Suits(seat, spare->slot, in_domain)) continue;
      const auto distance = [&](const RankState& s) { return SpanTo(OthersOf(replica), s.slot); };
      const bool is_better = best == spares.end() || (IsReady(*spare) == IsReady(*best) &&
                                                      distance(*spare) < distance(*best));
      if (is_better) best = spare;
    }
    if (best == spares.end()) continue;
    outcomes_.push_back(absl::StrCat("a spare on ", best->slot.node.value(), " takes seat ", seat));
    RankState spare = std::move(*best);
    spares.erase(best);
    Seat(seat, std::move(spare));
  }
}

// Starts new trainers, each at the slot that is nearest to its replica.
void ReplicaSeats::StartNewcomers(bool in_domain) {
  for (const int seat : VacantByHoles()) {
    const std::vector<Slot>& others = OthersOf(lanes_.ReplicaOf(seat));
    auto best = slots_.end();
    for (auto slot = slots_.begin(); slot != slots_.end(); ++slot) {
      if (!Suits(seat, *slot, in_domain)) continue;
      if (best == slots_.end() || SpanTo(others, *slot) < SpanTo(others, *best)) best = slot;
    }
    if (best == slots_.end()) continue;
    Slot slot = std::move(*best);
    slots_.erase(best);
    outcomes_.push_back(absl::StrCat("a new trainer on ", slot.node.value(), " takes seat ", seat));
    Seat(seat, Newcomer(job_, seat, std::move(slot), now_));
  }
}

// Gives what is still vacant to other members of given-up replicas, first to those of the same
// position. The rest stands by.
void ReplicaSeats::TakeOthers() {
  auto& survivors = holders_.given_up;
  for (const bool same : {true, false}) {
    for (const int seat : std::vector<int>(holders_.vacant)) {
      const auto found =
          std::find_if(survivors.begin(), survivors.end(), [&](const RankState& survivor) {
            return MayHave(seat, survivor.slot) &&
                   (!same || lanes_.PositionOf(survivor.seat) == lanes_.PositionOf(seat));
          });
      if (found != survivors.end()) Rejoin(seat, TakeOut(survivors, found));
    }
  }
  for (RankState& survivor : survivors) {
    survivor.seat = -1;
    holders_.next.spares.push_back(std::move(survivor));
  }
  survivors.clear();
}

std::optional<std::string> ReplicaSeats::Fill(const FindSlots& find_slots) {
  LeaveOtherDomains();
  ReplicaSupply supply(job_, holders_);
  supply.Find(find_slots);
  const std::vector<int> whole = supply.FindWhole();
  if (whole.size() < ReplicasByHoles(job_, holders_).size()) {
    const int ranks = MayGoOnWith(job_, lanes_.RankOf(static_cast<int>(whole.size()), 0));
    if (ranks == 0 || MayReturn(job_, now_)) return supply.DescribeWait();
    GiveUpAllBut(std::set<int>(whole.begin(), whole.begin() + lanes_.ReplicasIn(ranks)));
    outcomes_.push_back(DescribeShrinking(job_, ranks));
  }
  slots_ = supply.slots();
  homes_ = supply.homes();
  for (const RankState& member : holders_.next.members) {
    homes_.emplace(lanes_.ReplicaOf(member.seat), member.slot);
  }
  std::optional<std::string> in_the_way = KeepStates();
  if (in_the_way.has_value()) return in_the_way;
  SeatThoseWithState();
  for (const bool in_domain : {true, false}) {
    TakeSpares(in_domain);
    StartNewcomers(in_domain);
  }
  TakeOthers();
  if (!holders_.vacant.empty()) return supply.DescribeWait();
  return std::nullopt;
}

}  // namespace

std::optional<std::string> FillReplicas(const Job& job, const FindSlots& find_slots, Moment now,
                                        SeatHolders& holders, std::vector<std::string>& outcomes) {
  return ReplicaSeats(job, now, holders, outcomes).Fill(find_slots);
}

}  // namespace paceline
