#include "controller/core/recovery/elastic.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/core/batch_rule.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/seat_holders.h"

namespace paceline {
namespace {

int Present(const Job& job) { return static_cast<int>(job.ranks.size()); }

// As long as the job's newest planned change took.
absl::Duration PauseOf(const Job& job) {
  const auto& history = job.recovery.history;
  const auto newest =
      std::find_if(history.rbegin(), history.rend(), [](const MembershipChange& change) {
        return change.planned && change.ended != absl::InfinitePast();
      });
  if (newest == history.rend()) return kAssumedPause;
  return std::clamp(newest->ended - newest->begun, kShortestPause, kLongestPause);
}

// Slots for up to `more` extra ranks; of a sharded job for whole replicas. None of them is taken.
int CountExtraSlots(const Job& job, const FindSlots& find_slots, int more) {
  const int shards = job.request.shards;
  if (shards == 1) return static_cast<int>(find_slots(job, SlotUse::kIdle, more, nullptr).size());
  ReplicaHome home;
  while (static_cast<int>(home.taken.size()) < more) {
    std::vector<Slot> slots = find_slots(job, SlotUse::kExtra, shards, &home);
    if (static_cast<int>(slots.size()) < shards) break;
    std::move(slots.begin(), slots.end(), std::back_inserter(home.taken));
  }
  return static_cast<int>(home.taken.size());
}

// The next time at which elastic jobs look for slots: the same for all, since the controller goes
// over all jobs whenever one of them wakes it.
absl::Time NextLook(absl::Time now) {
  const absl::Duration since = absl::Floor(now - absl::UnixEpoch(), kGrowthInterval);
  return absl::UnixEpoch() + since + kGrowthInterval;
}

// Whether the job trains as it is meant to, so that it can think of more.
bool MayGrow(const Job& job) {
  const JobRecovery& recovery = job.recovery;
  return job.state == JobState::kRunning && ChangeUnderWay(job) == nullptr &&
         Present(job) >= job.request.ranks && Present(job) < MostRanks(job.request) &&
         recovery.growth_to <= Present(job) && recovery.give_back_to == 0 &&
         recovery.vacate.empty() && !job.checkpoints.stop_after.has_value() && !IsOver(job);
}

}  // namespace

int MostRanks(const JobRequest& request) {
  return std::max(request.ranks, request.recovery.max_ranks);
}

int LeastToStart(const JobRequest& request) {
  if (!IsElastic(request)) return request.ranks;
  int least = std::max(request.recovery.min_ranks, request.shards);
  while (least < request.ranks && PossibleRanksOf(request, least) != least) {
    least += request.shards;
  }
  return std::min(least, request.ranks);
}

int PossibleRanksOf(const JobRequest& request, int available) {
  const RecoveryPolicy& policy = request.recovery;
  return PossibleRanks(policy.rule, request.ranks, policy.batch, available, policy.least_samples,
                       request.shards, MostRanks(request));
}

int WantedRanks(const Job& job) {
  return std::max({job.request.ranks, Present(job), job.recovery.growth_to});
}

int NextRanks(const Job& job, int available, int others) {
  const int full = job.request.ranks;
  const int wanted = WantedRanks(job);
  const int standing_by = std::max(0, job.request.spares - others);
  if (available > full) available = std::max(full, available - standing_by);
  available = std::min(available, wanted);
  const bool waits = available > full && available < wanted && job.recovery.spares_failed == 0;
  return PossibleRanksOf(job.request, waits ? std::max(full, Present(job)) : available);
}

std::vector<int> SeatsToFill(const Job& job) {
  std::vector<bool> filled = FilledSeats(job);
  const auto seats = static_cast<size_t>(MostRanks(job.request));
  if (IsElastic(job.request)) filled.resize(std::max(filled.size(), seats));
  const int missing = WantedRanks(job) - Present(job);
  std::vector<int> empty;
  for (size_t seat = 0; seat < filled.size(); ++seat) {
    if (static_cast<int>(empty.size()) >= missing) break;
    if (!filled[seat]) empty.push_back(static_cast<int>(seat));
  }
  return empty;
}

int MissingRanks(const Job& job) {
  const bool trains = job.state == JobState::kRunning || job.state == JobState::kRecovering;
  if (!Recovers(job) || !trains || IsOver(job)) return 0;
  int there = 0;
  int moving = 0;
  for (const RankState& member : job.ranks) {
    if (IsLost(member)) continue;
    ++there;
    if (job.recovery.vacate.count(member.slot.node) > 0) ++moving;
  }
  const auto idle = std::count_if(job.spares.begin(), job.spares.end(),
                                  [&](const RankState& spare) { return IsUsable(job, spare); });
  const int for_ranks = std::max(0, static_cast<int>(idle) - job.request.spares);
  return std::max(0, std::max(0, job.request.ranks - there) + moving - for_ranks);
}

int UsableSlots(const Job& job, int slots) {
  if (!job.recovery.vacate.empty()) return slots;
  const int without = job.request.ranks - MissingRanks(job);
  return std::max(0, MayGoOnWith(job, without + slots) - without);
}

bool GrowsWithinQuota(const Job& job) {
  return IsElastic(job.request) && job.state == JobState::kRunning && job.recovery.vacate.empty();
}

std::vector<int> StepsDown(const Job& job) {
  std::vector<int> steps;
  if (!IsElastic(job.request) || job.state != JobState::kRunning || IsOver(job)) return steps;
  int ranks = Present(job);
  while (ranks > job.request.ranks) {
    ranks = PossibleRanksOf(job.request, ranks - 1);
    steps.push_back(ranks);
  }
  return steps;
}

absl::Duration GrowthPatience(const Job& job, int more) {
  return std::max(kLeastPatience, 2 * PauseOf(job) * Present(job) / std::max(1, more));
}

bool ConsiderGrowth(Job& job, const FindSlots& find_slots, Moment now) {
  JobRecovery& recovery = job.recovery;
  if (!IsElastic(job.request) || now.steady < recovery.next_growth) return false;
  recovery.next_growth = NextLook(now.steady);
  int possible = 0;
  if (MayGrow(job)) {
    const int room = MostRanks(job.request) - Present(job);
    possible = PossibleRanksOf(job.request, Present(job) + CountExtraSlots(job, find_slots, room));
  }
  if (possible <= Present(job)) {
    recovery.idle_since = absl::InfiniteFuture();
    return false;
  }
  recovery.idle_since = std::min(recovery.idle_since, now.steady);
  const absl::Time pays = recovery.idle_since + GrowthPatience(job, possible - Present(job));
  if (now.steady < pays) {
    recovery.next_growth = std::min(recovery.next_growth, pays);
    return false;
  }
  recovery.growth_to = possible;
  recovery.idle_since = absl::InfiniteFuture();
  return true;
}

void GrowLess(Job& job, int missing) {
  JobRecovery& recovery = job.recovery;
  const int possible = PossibleRanksOf(job.request, recovery.growth_to - missing);
  recovery.growth_to = possible > Present(job) ? possible : 0;
}

JobChange StopGrowth(Job& job, Moment now) {
  JobRecovery& recovery = job.recovery;
  recovery.idle_since = absl::InfiniteFuture();
  if (recovery.growth_to == 0) return JobChange::kNone;
  recovery.growth_to = 0;
  recovery.wake = now.steady;
  return JobChange::kProgress;
}

JobChange OrderGiveBack(Job& job, int ranks, const std::string& beneficiary, Moment now) {
  JobRecovery& recovery = job.recovery;
  if (recovery.give_back_to == ranks && recovery.give_back_for == beneficiary) {
    return JobChange::kNone;
  }
  if (recovery.give_back_to != ranks) recovery.wake = now.steady;
  recovery.give_back_to = ranks;
  recovery.give_back_for = beneficiary;
  return JobChange::kProgress;
}

bool GivesBack(const Job& job) {
  return job.recovery.give_back_to > 0 && Present(job) > job.recovery.give_back_to;
}

bool BeginGiveBack(Job& job, Moment now) {
  if (!GivesBack(job)) return false;
  const int to = job.recovery.give_back_to;
  const int extra = Present(job) - to;
  NextGeneration next;
  next.planned = true;
  next.members.assign(job.ranks.begin(), job.ranks.begin() + to);
  next.spares = job.spares;
  next.leaving = job.leaving;
  next.leaving.insert(next.leaving.end(), job.ranks.begin() + to, job.ranks.end());
  next.reason =
      absl::StrCat("gives ", extra, extra == 1 ? " extra rank" : " extra ranks", " back, of ",
                   Present(job), ": ", job.recovery.give_back_for, " waits for slots");
  BeginGeneration(job, std::move(next), now);
  return true;
}

void ForgetGivenBack(Job& job) {
  if (!IsElastic(job.request) || Present(job) < job.request.ranks) return;
  const auto seats = static_cast<size_t>(job.ranks.back().seat) + 1;
  if (job.homes.size() > seats) job.homes.resize(seats);
}

}  // namespace paceline
