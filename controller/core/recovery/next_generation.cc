#include "controller/core/recovery/next_generation.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/recovery/copies.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/replica_seats.h"
#include "controller/core/recovery/seat_holders.h"

namespace paceline {
namespace {

void TakeSpares(const Job& job, SeatHolders& holders, std::vector<std::string>& outcomes) {
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

// Makes members beyond `ranks` stand by, first those that have no state to give to others.
void StandBack(const Job& job, SeatHolders& holders, int ranks) {
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

// Of a job without shards: gives the vacant seats to others, or leaves some of them empty. Returns
// what the job waits for instead, if anything.
std::optional<std::string> FillSeats(const Job& job, const FindSlots& find_slots, Moment now,
                                     SeatHolders& holders, std::vector<std::string>& outcomes) {
  TakeSpares(job, holders, outcomes);
  const int vacant = static_cast<int>(holders.vacant.size());
  const int filled = static_cast<int>(holders.next.members.size());
  const SlotUse use = MayGoOnWith(job, filled) > 0 ? SlotUse::kRank : SlotUse::kRankAnywhere;
  // Extra ranks of an elastic job are not replaced.
  const int needed = std::clamp(job.request.ranks - filled, 0, vacant);
  std::vector<Slot> slots =
      needed == 0 ? std::vector<Slot>() : find_slots(job, use, needed, nullptr);
  if (static_cast<int>(slots.size()) < vacant) {
    const int ranks = MayGoOnWith(job, filled + static_cast<int>(slots.size()));
    if (ranks == 0 || MayReturn(job, now)) {
      return absl::StrCat("waits for ", vacant - slots.size(),
                          vacant - slots.size() == 1 ? " slot" : " slots");
    }
    SortBySeat(holders.next.members);
    StandBack(job, holders, ranks);
    slots.resize(static_cast<size_t>(std::max(0, ranks - filled)));
    outcomes.push_back(DescribeShrinking(job, ranks));
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    outcomes.push_back(absl::StrCat("a new trainer on ", slots[i].node.value(), " takes seat ",
                                    holders.vacant[i]));
    holders.next.members.push_back(Newcomer(job, holders.vacant[i], std::move(slots[i]), now));
  }
  return std::nullopt;
}

JobChange WaitFor(Job& job, const std::string& cause, const std::string& what) {
  const std::string reason = absl::StrCat(cause, "; ", what);
  return std::exchange(job.reason, reason) == reason ? JobChange::kNone : JobChange::kState;
}

}  // namespace

JobChange Replace(Job& job, const std::string& cause, const FindSlots& find_slots, Moment now) {
  std::vector<std::string> outcomes;
  SeatHolders holders = KeepHolders(job, now);
  const auto fill = job.request.shards == 1 ? FillSeats : FillReplicas;
  const std::optional<std::string> waits = fill(job, find_slots, now, holders, outcomes);
  if (waits.has_value()) return WaitFor(job, cause, *waits);
  SortBySeat(holders.next.members);
  holders.next.restores = GoesBack(job);
  if (holders.next.restores) {
    const std::string missing = WhyCopiesAreMissing(job, holders.next.members);
    if (!missing.empty()) return WaitFor(job, cause, missing);
  }
  holders.next.reason = outcomes.empty() ? absl::StrCat(cause, "; the members rendezvous again")
                                         : absl::StrCat(cause, "; ", absl::StrJoin(outcomes, ", "));
  if (holders.next.restores) holders.next.reason = GoesBackText(job) + holders.next.reason;
  BeginGeneration(job, std::move(holders.next), now);
  return JobChange::kState;
}

}  // namespace paceline
