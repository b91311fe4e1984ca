#include "controller/core/recovery/seat_holders.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/recovery.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

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

// Whether a member trains in the generation, so that all have had their states.
bool HasComeAbout(const Job& job) {
  return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
    return member.report.membership.generation == job.generation;
  });
}

// Gives free seats to leavers of the same groups.
void ComeBack(Job& job, const std::vector<int>& groups, const std::vector<bool>& has_holder,
              SeatHolders& holders) {
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

}  // namespace

SeatHolders KeepHolders(Job job, Moment now) {
  SeatHolders holders;
  holders.next.spares = job.spares;
  const std::vector<int> groups = GroupsOfSeats(job);
  const std::vector<bool> has_holder = HasHolder(job, groups);
  const bool has_come_about = HasComeAbout(job);
  for (RankState& member : job.ranks) {
    RankState* earlier = EarlierHolder(job, member.seat, groups);
    const bool waits_for_state = member.hands_over && !has_come_about;
    const bool may_have_state = HasStateOfSeat(job, member, groups) ||
                                (!has_holder[static_cast<size_t>(member.seat)] && !waits_for_state);
    if (!IsLost(member) && (may_have_state || earlier == nullptr)) {
      holders.next.members.push_back(std::move(member));
      continue;
    }
    const int seat = member.seat;
    // One that may have been handed the state of this seat must not be found with it in another.
    if (!IsLost(member) && !member.hands_over) {
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

void Fill(SeatHolders& holders, int seat, RankState trainer) {
  trainer.seat = seat;
  holders.next.members.push_back(std::move(trainer));
  holders.vacant.erase(std::find(holders.vacant.begin(), holders.vacant.end(), seat));
}

RankState Newcomer(const Job& job, int seat, Slot slot, Moment now) {
  RankState newcomer;
  newcomer.report.id = {job.request.id, NextUnused(job), Rank(seat)};
  newcomer.slot = std::move(slot);
  newcomer.seat = seat;
  newcomer.progressed = now.steady;
  return newcomer;
}

void SortBySeat(std::vector<RankState>& members) {
  std::sort(members.begin(), members.end(),
            [](const RankState& a, const RankState& b) { return a.seat < b.seat; });
}

int MayGoOnWith(const Job& job, int ranks) {
  const RecoveryPolicy& policy = job.request.recovery;
  const int least = policy.min_ranks == 0 ? job.request.ranks : policy.min_ranks;
  const int possible = PossibleRanksOf(job.request, ranks);
  return possible < least ? 0 : possible;
}

std::string DescribeShrinking(const Job& job, int ranks) {
  const int wanted = job.request.ranks;
  return absl::StrCat("the job goes on with ", ranks,
                      ranks < wanted ? absl::StrCat(" of ", wanted) : "", " ranks");
}

bool MayReturn(const Job& job, Moment now) {
  if (now.steady >= job.recovery.recovering_since + kReturn) return false;
  return std::any_of(job.ranks.begin(), job.ranks.end(),
                     [](const RankState& member) { return IsLost(member) && !HasEnded(member); });
}

}  // namespace paceline
