#include "controller/core/recovery/planned_replicas.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/core/lanes.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/replica_domain.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

// Seats of one replica that others are to take.
struct WantedSeats {
  std::vector<int> seats;
  std::vector<Slot> others;  // Of its ranks that stay.
  // The trainers that take them are no farther than this from the others.
  Span widest = Span::kAnywhere;
  SlotUse use = SlotUse::kRank;  // Of the slots for these trainers.
};

WantedSeats SeatsOf(StretchedReplica replica) {
  return {std::move(replica.outside), std::move(replica.inside), replica.home};
}

// Takes out the slots that are too far from the replica's other ranks.
void KeepNear(const WantedSeats& wanted, std::vector<Slot>& slots) {
  slots.erase(
      std::remove_if(slots.begin(), slots.end(),
                     [&](const Slot& slot) { return SpanTo(wanted.others, slot) > wanted.widest; }),
      slots.end());
}

// By replica: the seats of ranks on nodes that the job leaves.
std::map<int, WantedSeats> MovingSeats(const Job& job) {
  const Lanes lanes{job.request.shards};
  std::map<int, WantedSeats> moving;
  if (job.recovery.vacate.empty()) return moving;
  for (const RankState& member : job.ranks) {
    WantedSeats& replica = moving[lanes.ReplicaOf(member.seat)];
    if (job.recovery.vacate.count(member.slot.node) > 0) {
      replica.seats.push_back(member.seat);
    } else {
      replica.others.push_back(member.slot);
    }
  }
  for (auto replica = moving.begin(); replica != moving.end();) {
    replica = replica->second.seats.empty() ? moving.erase(replica) : std::next(replica);
  }
  return moving;
}

// Of each empty replica.
std::vector<WantedSeats> EmptySeats(const Job& job) {
  const Lanes lanes{job.request.shards};
  std::vector<WantedSeats> empty;
  int ranks = static_cast<int>(job.ranks.size());
  for (const int seat : SeatsToFill(job)) {
    if (lanes.PositionOf(seat) == 0) {
      WantedSeats& replica = empty.emplace_back();
      if (IsElastic(job.request)) {
        replica.use = ranks < job.request.ranks ? SlotUse::kGrowth : SlotUse::kExtra;
      }
    }
    empty.back().seats.push_back(seat);
    ++ranks;
  }
  return empty;
}

// Spares that are not used yet.
class IdleSpares {
 public:
  IdleSpares(const Job& job, const std::vector<size_t>& spares)
      : widest_(WidestDomain(job)), spares_(spares) {
    for (const size_t spare : spares) slots_.push_back(job.spares[spare].slot);
  }

  Span widest() const { return widest_; }
  // In the order of indices, as those of Take.
  const std::vector<Slot>& slots() const { return slots_; }
  int size() const { return static_cast<int>(slots_.size()); }

  std::vector<size_t> FindFor(const WantedSeats& wanted) const {
    return ChooseNear(slots_, wanted.others, std::min(widest_, wanted.widest),
                      static_cast<int>(wanted.seats.size()));
  }

  // Takes these out; returns their indices in Job.spares.
  std::vector<size_t> Take(std::vector<size_t> chosen) {
    std::vector<size_t> taken;
    taken.reserve(chosen.size());
    for (const size_t i : chosen) taken.push_back(spares_[i]);
    std::sort(chosen.rbegin(), chosen.rend());
    for (const size_t i : chosen) {
      spares_.erase(spares_.begin() + static_cast<int64_t>(i));
      slots_.erase(slots_.begin() + static_cast<int64_t>(i));
    }
    return taken;
  }

  // Takes one for each of the seats and appends them, or none.
  bool TakeAll(const WantedSeats& wanted, std::vector<Taker>& takers) {
    std::vector<size_t> chosen = FindFor(wanted);
    if (chosen.size() < wanted.seats.size()) return false;
    const std::vector<size_t> taken = Take(std::move(chosen));
    for (size_t i = 0; i < taken.size(); ++i) takers.push_back({wanted.seats[i], taken[i]});
    return true;
  }

 private:
  Span widest_;
  std::vector<size_t> spares_;
  std::vector<Slot> slots_;  // Of the same ones.
};

std::vector<size_t> UsableSpares(const Job& job) {
  std::vector<size_t> usable;
  for (size_t i = 0; i < job.spares.size(); ++i) {
    if (IsUsable(job, job.spares[i])) usable.push_back(i);
  }
  return usable;
}

// Leaves out replicas with a rank that has to stay for now, since it has the last state of its
// group.
std::vector<Taker> WithoutLastReplicas(const Job& job, const std::vector<Taker>& takers) {
  const Lanes lanes{job.request.shards};
  std::map<int, size_t> ranks;  // By seat.
  for (size_t r = 0; r < job.ranks.size(); ++r) ranks[job.ranks[r].seat] = r;
  std::vector<size_t> moving;
  for (const Taker& taker : takers) moving.push_back(ranks.at(taker.seat));
  const std::vector<size_t> left = WithoutLastHolders(job, moving);
  const std::set<size_t> may_move(left.begin(), left.end());
  std::set<int> staying;  // Replicas.
  for (const Taker& taker : takers) {
    if (may_move.count(ranks.at(taker.seat)) == 0) staying.insert(lanes.ReplicaOf(taker.seat));
  }
  std::vector<Taker> without;
  for (const Taker& taker : takers) {
    if (staying.count(lanes.ReplicaOf(taker.seat)) == 0) without.push_back(taker);
  }
  return without;
}

// Who takes over the seats of ranks that leave nodes, node by node; or of those that come back to
// their replicas.
std::vector<Taker> ChooseMoves(const Job& job, IdleSpares& idle) {
  const Lanes lanes{job.request.shards};
  const std::map<int, WantedSeats> moving = MovingSeats(job);
  std::set<int> moved;  // Replicas.
  std::vector<Taker> takers;
  for (const auto& [node, why] : job.recovery.vacate) {
    std::set<int> here;
    for (const RankState& member : job.ranks) {
      const int replica = lanes.ReplicaOf(member.seat);
      if (member.slot.node == node && moved.count(replica) == 0) here.insert(replica);
    }
    IdleSpares left = idle;
    std::vector<Taker> found = takers;
    const bool all = std::all_of(here.begin(), here.end(), [&](int replica) {
      return left.TakeAll(moving.at(replica), found);
    });
    if (!all) continue;
    idle = std::move(left);
    takers = std::move(found);
    moved.insert(here.begin(), here.end());
  }
  for (StretchedReplica& replica : FindMending(job)) {
    idle.TakeAll(SeatsOf(std::move(replica)), takers);
  }
  return WithoutLastReplicas(job, takers);
}

}  // namespace

bool ChooseMending(Job& job, const FindSlots& find_slots, Moment now) {
  JobRecovery& recovery = job.recovery;
  if (now.steady < recovery.next_mending || job.state != JobState::kRunning ||
      ChangeUnderWay(job) != nullptr) {
    return false;
  }
  const std::set<int> before = std::exchange(recovery.mending, {});
  std::vector<StretchedReplica> stretched = FindStretched(job);
  // The next change of membership sets the time again.
  recovery.next_mending =
      stretched.empty() ? absl::InfiniteFuture() : now.steady + kMendingInterval;
  if (!recovery.vacate.empty() || !SeatsToFill(job).empty() || IsOver(job)) return !before.empty();
  IdleSpares idle(job, UsableSpares(job));
  std::vector<Slot> taken;
  for (StretchedReplica& replica : stretched) {
    const int number = replica.replica;
    const WantedSeats wanted = SeatsOf(std::move(replica));
    IdleSpares left = idle;
    const size_t more = wanted.seats.size() - left.Take(left.FindFor(wanted)).size();
    std::vector<Slot> slots;
    if (more > 0) {
      const ReplicaHome home{NodesOf(wanted.others), taken};
      slots = find_slots(job, SlotUse::kRank, static_cast<int>(more), &home);
      KeepNear(wanted, slots);
    }
    if (slots.size() < more) continue;
    recovery.mending.insert(number);
    idle = std::move(left);
    std::move(slots.begin(), slots.end(), std::back_inserter(taken));
  }
  return recovery.mending != before;
}

std::vector<Taker> ChooseTakers(const Job& job, const std::vector<size_t>& ready) {
  IdleSpares idle(job, ready);
  std::vector<Taker> takers = ChooseMoves(job, idle);
  std::vector<Taker> growth;
  for (const WantedSeats& replica : EmptySeats(job)) {
    if (!idle.TakeAll(replica, growth)) break;
  }
  const int present = static_cast<int>(job.ranks.size());
  const int ranks = NextRanks(job, present + static_cast<int>(growth.size()), idle.size());
  growth.resize(static_cast<size_t>(std::max(0, ranks - present)));
  takers.insert(takers.end(), growth.begin(), growth.end());
  return takers;
}

MissingTrainers FindMissing(const Job& job, const FindSlots& find_slots) {
  MissingTrainers missing;
  IdleSpares idle(job, UsableSpares(job));
  const auto find = [&](SlotUse use, int count, const std::vector<NodeName>& nodes) {
    const ReplicaHome home{nodes, missing.slots};
    return find_slots(job, use, count, &home);
  };
  const auto add = [&](std::vector<Slot> slots) {
    std::move(slots.begin(), slots.end(), std::back_inserter(missing.slots));
  };
  std::vector<WantedSeats> all;
  for (const auto& [replica, wanted] : MovingSeats(job)) all.push_back(wanted);
  for (WantedSeats& wanted : EmptySeats(job)) all.push_back(std::move(wanted));
  for (StretchedReplica& replica : FindMending(job)) all.push_back(SeatsOf(std::move(replica)));
  for (const WantedSeats& wanted : all) {
    const int count = static_cast<int>(wanted.seats.size());
    if (wanted.others.empty()) {
      const auto find_here = [&](int more, const std::vector<NodeName>& nodes) {
        return find(wanted.use, more, nodes);
      };
      std::optional<NewHome> home = FindNewHome(idle.slots(), count, idle.widest(), find_here);
      if (home.has_value()) {
        idle.Take(std::move(home->idle));
        add(std::move(home->slots));
      } else if (wanted.use == SlotUse::kExtra) {
        missing.extra += count;
      } else {
        missing.found_all = false;
      }
      continue;
    }
    const int more = count - static_cast<int>(idle.Take(idle.FindFor(wanted)).size());
    if (more == 0) continue;
    std::vector<Slot> slots = find(wanted.use, more, NodesOf(wanted.others));
    KeepNear(wanted, slots);
    // Others do not wait for a replica to be mended.
    const bool is_needed = wanted.widest == Span::kAnywhere;
    if (is_needed && static_cast<int>(slots.size()) < more) missing.found_all = false;
    add(std::move(slots));
  }
  missing.idle = idle.size();
  return missing;
}

void SortByUse(Job& job) {
  IdleSpares idle(job, UsableSpares(job));
  std::set<size_t> used;
  const auto use = [&](const WantedSeats& wanted) {
    const std::vector<size_t> taken = idle.Take(idle.FindFor(wanted));
    used.insert(taken.begin(), taken.end());
  };
  for (const auto& [replica, wanted] : MovingSeats(job)) use(wanted);
  for (const WantedSeats& wanted : EmptySeats(job)) use(wanted);
  for (StretchedReplica& replica : FindMending(job)) use(SeatsOf(std::move(replica)));
  std::vector<RankState> first, last;
  for (size_t i = 0; i < job.spares.size(); ++i) {
    (used.count(i) > 0 ? first : last).push_back(std::move(job.spares[i]));
  }
  std::move(last.begin(), last.end(), std::back_inserter(first));
  job.spares = std::move(first);
}

}  // namespace paceline
