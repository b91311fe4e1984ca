#include "controller/core/recovery/next_generation.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

// Who holds which seat in the next generation, before free seats are filled.
struct Holders {
  NextGeneration next;
  std::vector<int> vacant;  // Seats, ascending.
};

// Whether it may take back a seat that it held before a planned generation that failed.
bool MayComeBack(const Job& job, const RankState& leaver) {
  return leaver.seat != -1 && !leaver.stop.has_value() && !HasEnded(leaver) &&
         HasState(job, leaver) && leaver.unreachable_since == absl::InfiniteFuture();
}

RankState* EarlierHolder(Job& job, int seat) {
  for (RankState& trainer : job.leaving) {
    if (trainer.seat == seat && MayComeBack(job, trainer)) return &trainer;
  }
  return nullptr;
}

// By seat: whether a member is left in its group that certainly has the state.
std::vector<bool> HasHolder(const Job& job, const std::vector<int>& groups) {
  std::set<int> held;
  for (const RankState& member : job.ranks) {
    if (!IsLost(member) && HasState(job, member)) {
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
    if (!MayComeBack(job, leaver) || has_holder[static_cast<size_t>(leaver.seat)]) continue;
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
    RankState* earlier = EarlierHolder(job, member.seat);
    const bool may_have_state =
        HasState(job, member) || !has_holder[static_cast<size_t>(member.seat)];
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

void TakeSpares(const Job& job, Holders& holders, std::vector<std::string>& outcomes) {
  std::stable_partition(holders.next.spares.begin(), holders.next.spares.end(), IsReady);
  while (!holders.vacant.empty()) {
    auto& spares = holders.next.spares;
    const auto spare = std::find_if(spares.begin(), spares.end(),
                                    [&](const RankState& s) { return IsUsable(job, s); });
    if (spare == spares.end()) return;
    spare->seat = holders.vacant.front();
    outcomes.push_back(
        absl::StrCat("a spare on ", spare->slot.node.value(), " takes seat ", spare->seat));
    holders.next.members.push_back(std::move(*spare));
    spares.erase(spare);
    holders.vacant.erase(holders.vacant.begin());
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

// The greatest number of ranks, up to `ranks`, with which the job may go on; 0: with none.
int MayGoOnWith(const Job& job, int ranks) {
  const RecoveryPolicy& policy = job.request.recovery;
  const int least = policy.min_ranks == 0 ? job.request.ranks : policy.min_ranks;
  const int possible =
      PossibleRanks(policy.rule, job.request.ranks, policy.batch, ranks, policy.least_samples);
  return possible < least ? 0 : possible;
}

// Whether a lost member may still end or come back, so that its slot could be used again.
bool MayReturn(const Job& job, Moment now) {
  if (now.steady >= job.recovery.recovering_since + kReturn) return false;
  return std::any_of(job.ranks.begin(), job.ranks.end(),
                     [](const RankState& member) { return IsLost(member) && !HasEnded(member); });
}

}  // namespace

JobChange Replace(Job& job, const std::string& cause, const FindSlots& find_slots, Moment now) {
  std::vector<std::string> outcomes;
  Holders holders = KeepHolders(job, now);
  TakeSpares(job, holders, outcomes);
  const int vacant = static_cast<int>(holders.vacant.size());
  const int filled = static_cast<int>(holders.next.members.size());
  const SlotUse use = MayGoOnWith(job, filled) > 0 ? SlotUse::kRank : SlotUse::kRankAnywhere;
  std::vector<Slot> slots =
      vacant == 0 ? std::vector<Slot>() : find_slots(job, use, vacant, nullptr);
  if (static_cast<int>(slots.size()) < vacant) {
    const int ranks = MayGoOnWith(job, filled + static_cast<int>(slots.size()));
    if (ranks == 0 || MayReturn(job, now)) {
      const std::string reason = absl::StrCat(cause, "; waits for ", vacant - slots.size(),
                                              vacant - slots.size() == 1 ? " slot" : " slots");
      return std::exchange(job.reason, reason) == reason ? JobChange::kNone : JobChange::kState;
    }
    SortBySeat(holders.next.members);
    StandBack(job, holders, ranks);
    slots.resize(static_cast<size_t>(std::max(0, ranks - filled)));
    outcomes.push_back(
        absl::StrCat("the job goes on with ", ranks, " of ", job.request.ranks, " ranks"));
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    outcomes.push_back(absl::StrCat("a new trainer on ", slots[i].node.value(), " takes seat ",
                                    holders.vacant[i]));
    holders.next.members.push_back(Newcomer(job, holders.vacant[i], std::move(slots[i]), now));
  }
  SortBySeat(holders.next.members);
  holders.next.reason = outcomes.empty() ? absl::StrCat(cause, "; the members rendezvous again")
                                         : absl::StrCat(cause, "; ", absl::StrJoin(outcomes, ", "));
  BeginGeneration(job, std::move(holders.next), now);
  return JobChange::kState;
}

}  // namespace paceline
