#include "controller/core/recovery/copies.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/state_groups.h"

namespace paceline {
namespace {

// By seat: those of some trainers that have its copy.
using Holders = std::map<int, std::vector<const RankState*>>;

Holders HoldersAmong(const std::vector<const RankState*>& trainers) {
  Holders holders;
  for (const RankState* trainer : trainers) {
    if (trainer->own_copy != -1) holders[trainer->own_copy].push_back(trainer);
    if (trainer->ward_copy != -1) holders[trainer->ward_copy].push_back(trainer);
  }
  return holders;
}

std::string BackTo(int64_t step) {
  return absl::StrCat("goes back to the copies of step ", step, "; ");
}

bool IsLeft(const RankState& trainer) { return !IsLost(trainer) && !HasEnded(trainer); }

void NoteCopies(RankState& trainer, int own, int ward) {
  trainer.own_copy = own;
  trainer.ward_copy = ward;
}

// The copies of this step are complete: nobody keeps those before.
void Complete(Job& job, int64_t step, Moment now) {
  JobCopies& copies = job.recovery.copies;
  copies.step = step;
  copies.generation = job.generation;
  copies.time = now.wall;
  for (auto* part : {&job.spares, &job.leaving}) {
    for (RankState& trainer : *part) NoteCopies(trainer, -1, -1);
  }
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const int ward = copies.wards[r];
    NoteCopies(job.ranks[r], job.ranks[r].seat,
               ward == -1 ? -1 : job.ranks[static_cast<size_t>(ward)].seat);
  }
}

// Calls `use` with each trainer of the job that is left, as the next generation may have it.
template <typename F>
void ForEachLeft(const Job& job, F use) {
  for (const RankState& member : job.ranks) {
    if (IsLeft(member)) use(member);
  }
  for (const RankState& spare : job.spares) {
    if (IsUsable(job, spare)) use(spare);
  }
  // Holders that left for a planned change that did not come about take their seats back.
  for (const RankState& trainer : job.leaving) {
    const bool answers = trainer.unreachable_since == absl::InfiniteFuture();
    if (trainer.seat != -1 && !trainer.stop.has_value() && answers && IsLeft(trainer)) {
      use(trainer);
    }
  }
}

std::vector<const RankState*> Left(const Job& job) {
  std::vector<const RankState*> left;
  ForEachLeft(job, [&](const RankState& trainer) { left.push_back(&trainer); });
  return left;
}

// Which copy for the seats of `members` nobody has; empty: there are all.
std::string Missing(const Job& job, const std::vector<RankState>& members, const Holders& holders) {
  const JobCopies& copies = job.recovery.copies;
  if (copies.step == 0) return "no copies are complete yet";
  for (const RankState& member : members) {
    if (holders.count(member.seat) > 0) continue;
    return absl::StrCat("nobody is left with the copy of seat ", member.seat, " after step ",
                        copies.step);
  }
  return "";
}

// Whether the trainer is known to be of a release without copies.
bool KnowsNoCopies(const RankState& trainer) {
  return IsReady(trainer) && !trainer.report.membership.can_keep_copies;
}

// "rank 3", "ranks 3, 4", "5 ranks"
std::string RanksText(const std::vector<size_t>& ranks) {
  constexpr size_t kNamed = 4;
  if (ranks.size() > kNamed) return absl::StrCat(ranks.size(), " ranks");
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

// Which ranks would lose their copy with one trainer, and which with one node.
std::string DescribeWeakness(const Job& job, const Holders& holders) {
  std::vector<size_t> once;
  std::vector<size_t> on_one_node;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const std::vector<const RankState*>& held_by = holders.at(job.ranks[r].seat);
    if (held_by.size() < 2) {
      once.push_back(r);
      continue;
    }
    const bool together = std::all_of(held_by.begin(), held_by.end(), [&](const RankState* one) {
      return one->slot.node == held_by.front()->slot.node;
    });
    if (together) on_one_node.push_back(r);
  }
  std::string text;
  if (!once.empty()) {
    absl::StrAppend(&text, ", until the next copies only once for ", RanksText(once));
  }
  if (!on_one_node.empty()) {
    absl::StrAppend(&text, ", for ", RanksText(on_one_node), " twice on one node");
  }
  return text;
}

// Its copy is with nobody else, and no other rank could go back.
std::string DescribeLoneRank(const Job& job) {
  const std::string advice =
      SavesCheckpoints(job.request)
          ? absl::StrCat("save it with `paceline checkpoint save ", job.request.id.value(), "`")
          : "nothing saves its state, as its job file has no checkpoint.directory";
  return absl::StrCat("not protected: the job has one rank, whose copy is lost with it; until ",
                      "there are slots for more, ", advice);
}

}  // namespace

bool HasCopies(const Job& job) {
  return Recovers(job) && job.request.recovery.copy_every_steps > 0;
}

const CopyStatus& CopiesReported(const Job& job, const RankState& member) {
  static const CopyStatus& nothing = *new CopyStatus();
  const CopyStatus& status = member.report.membership.copies;
  return status.generation == job.generation ? status : nothing;
}

bool LeavesCopiesOut(const Job& job) {
  return HasCopies(job) && std::any_of(job.ranks.begin(), job.ranks.end(), KnowsNoCopies);
}

std::string WhyNoCopies(const Job& job) {
  if (!HasCopies(job)) return "";
  std::vector<size_t> ranks;
  std::set<std::string> nodes;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    if (!KnowsNoCopies(job.ranks[r])) continue;
    ranks.push_back(r);
    nodes.insert(job.ranks[r].slot.node.value());
  }
  if (ranks.empty()) return "";
  const bool one = ranks.size() == 1;
  return absl::StrCat(one ? "the trainer of " : "the trainers of ", RanksText(ranks), " on ",
                      absl::StrJoin(nodes, ", "), one ? " is" : " are",
                      " of an earlier release, which knows no copies: upgrade paceline-worker "
                      "there, and have its ranks started again (paceline node drain)");
}

// Ranks of a node are brought together; then the one that is as many places further as the largest
// node has ranks is on another node, if there is room for that at all.
std::vector<int> BuddiesOf(const std::vector<NodeName>& nodes) {
  std::map<NodeName, std::vector<int>> by_node;
  for (size_t r = 0; r < nodes.size(); ++r) by_node[nodes[r]].push_back(static_cast<int>(r));
  std::vector<int> order;
  size_t shift = 0;
  for (const auto& [node, ranks] : by_node) {
    order.insert(order.end(), ranks.begin(), ranks.end());
    shift = std::max(shift, ranks.size());
  }
  if (shift == nodes.size()) shift = 1;
  std::vector<int> buddies(nodes.size(), -1);
  if (nodes.size() < 2) return buddies;
  for (size_t i = 0; i < order.size(); ++i) {
    buddies[static_cast<size_t>(order[i])] = order[(i + shift) % order.size()];
  }
  return buddies;
}

void RestoreBuddies(Job& job) {
  JobCopies& copies = job.recovery.copies;
  copies.buddies.clear();
  copies.wards.clear();
  if (!HasCopies(job)) return;
  std::vector<NodeName> nodes;
  nodes.reserve(job.ranks.size());
  for (const RankState& member : job.ranks) nodes.push_back(member.slot.node);
  copies.buddies = BuddiesOf(nodes);
  copies.wards.assign(copies.buddies.size(), -1);
  for (size_t r = 0; r < copies.buddies.size(); ++r) {
    if (copies.buddies[r] == -1) continue;
    copies.wards[static_cast<size_t>(copies.buddies[r])] = static_cast<int>(r);
  }
}

void BeginCopies(Job& job, bool restores) {
  JobCopies& copies = job.recovery.copies;
  copies.settled_step = 0;
  copies.restoring = restores;
  RestoreBuddies(job);
}

std::optional<MemberCopies> CopiesOf(const Job& job, const RankState& trainer) {
  const int rank = RankOf(job, trainer).value();
  const JobCopies& copies = job.recovery.copies;
  if (!HasCopies(job) || rank < 0) return std::nullopt;
  // Whoever connects knows that all members do, as they get the store's address when all are ready.
  // Without the order to go back, members would train on from different states.
  if (!copies.restoring && LeavesCopiesOut(job)) return std::nullopt;
  MemberCopies part;
  part.seat = trainer.seat;
  part.buddy = copies.buddies[static_cast<size_t>(rank)];
  part.ward = copies.wards[static_cast<size_t>(rank)];
  part.complete_step = copies.step;
  part.complete_generation = copies.generation;
  part.settled_step = copies.settled_step;
  part.restore = copies.restoring;
  return part;
}

JobChange GiveUpWhoCannotGoBack(Job& job) {
  if (!job.recovery.copies.restoring) return JobChange::kNone;
  JobChange change = JobChange::kNone;
  for (RankState& member : job.ranks) {
    if (IsLost(member) || !KnowsNoCopies(member)) continue;
    member.lost = absl::StrCat(
        "its trainer is of an earlier release, which cannot go back to copies in memory: upgrade "
        "paceline-worker on ",
        member.slot.node.value());
    job.recovery.avoid[member.slot.node] = member.lost;
    change = JobChange::kState;
  }
  return change;
}

// A member makes no further copy before it is told that the one before is settled, and keeps that
// until then. So if all have one of the same step, it is there.
JobChange TakeCopies(Job& job, Moment now) {
  if (!HasCopies(job) || job.ranks.size() < 2) return JobChange::kNone;
  JobCopies& copies = job.recovery.copies;
  const int64_t copied = CopiesReported(job, job.ranks.front()).copied_step;
  int64_t settled = CopiesReported(job, job.ranks.front()).settled_step;
  bool all = copied > 0;
  for (const RankState& member : job.ranks) {
    const CopyStatus& status = CopiesReported(job, member);
    settled = std::min(settled, status.settled_step);
    all = all && status.copied_step == copied;
  }
  const bool is_new = copied > copies.step || copies.generation < job.generation;
  const bool completes = all && is_new;
  if (completes) Complete(job, copied, now);
  if (settled <= copies.settled_step && !completes) return JobChange::kNone;
  copies.settled_step = std::max(copies.settled_step, settled);
  return JobChange::kState;
}

void CompleteRestore(Job& job, MembershipChange& change) {
  for (RankState& member : job.ranks) {
    change.steps_lost = std::max(change.steps_lost, CopiesReported(job, member).steps_lost);
    member.own_copy = member.seat;
  }
  change.reason =
      absl::StrCat("rolled back ", change.steps_lost, change.steps_lost == 1 ? " step" : " steps",
                   " to the copies of step ", change.restored_step, "; ",
                   absl::StripPrefix(change.reason, BackTo(change.restored_step)));
  DropEvaluationAfter(job, change.restored_step);
  job.recovery.copies.restoring = false;
}

bool GoesBack(const Job& job) {
  const JobCopies& copies = job.recovery.copies;
  if (!HasCopies(job) || copies.step == 0) return false;
  return copies.restoring || !WhyStateIsLost(job).empty();
}

std::string GoesBackText(const Job& job) { return BackTo(job.recovery.copies.step); }

// Copies may fail for long.
const Checkpoint* CheckpointThatLosesLess(const Job& job) {
  constexpr int kIntervals = 3;  // By so many it has to be newer.
  const Checkpoint* saved = NewestComplete(job, job.start.since);
  if (saved == nullptr || job.restarts >= job.request.max_restarts) return nullptr;
  const int64_t every = job.request.recovery.copy_every_steps;
  return saved->key.step < job.recovery.copies.step + kIntervals * every ? nullptr : saved;
}

std::string WhyCopiesAreMissing(const Job& job, const std::vector<RankState>& members) {
  std::vector<const RankState*> trainers;
  trainers.reserve(members.size());
  for (const RankState& member : members) trainers.push_back(&member);
  return Missing(job, members, HoldersAmong(trainers));
}

std::string WhyItCannotGoOn(const Job& job) {
  const bool restoring = job.recovery.copies.restoring;
  std::string why = restoring ? "" : WhyStateIsLost(job);
  if (!HasCopies(job) || (why.empty() && !restoring)) return why;
  std::string missing = Missing(job, job.ranks, HoldersAmong(Left(job)));
  const Checkpoint* const saved = restoring ? nullptr : CheckpointThatLosesLess(job);
  if (missing.empty() && saved != nullptr) {
    missing = absl::StrCat("its copies of step ", job.recovery.copies.step,
                           " are older than its checkpoint of step ", saved->key.step);
  }
  if (missing.empty()) return "";
  return absl::StrCat(why, why.empty() ? "" : ", and ", missing);
}

// Asked at each report of a rank, so it builds nothing as long as each member has its own copy.
bool IsProtected(const Job& job) {
  if (job.ranks.size() < 2 || job.recovery.copies.step == 0) return false;
  const bool all_have_theirs = std::all_of(
      job.ranks.begin(), job.ranks.end(),
      [](const RankState& member) { return IsLeft(member) && member.own_copy == member.seat; });
  if (all_have_theirs) return true;
  const size_t seats = job.homes.size();
  std::vector<bool> held(seats);
  const auto note = [&](int seat) {
    // -1, none, is beyond all seats.
    if (static_cast<size_t>(seat) < seats) held[static_cast<size_t>(seat)] = true;
  };
  ForEachLeft(job, [&](const RankState& trainer) {
    note(trainer.own_copy);
    note(trainer.ward_copy);
  });
  return std::all_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
    return static_cast<size_t>(member.seat) < seats && held[static_cast<size_t>(member.seat)];
  });
}

std::string DescribeProtection(const Job& job) {
  const JobCopies& copies = job.recovery.copies;
  if (job.ranks.size() == 1) return DescribeLoneRank(job);
  std::string text;
  const Holders holders = HoldersAmong(Left(job));
  const std::string missing = Missing(job, job.ranks, holders);
  const std::string why_none = WhyNoCopies(job);
  if (copies.step == 0 && !why_none.empty()) {
    text = "nothing";
  } else if (copies.step == 0) {
    text = absl::StrCat("nothing yet: copies are made after the first step, then after each ",
                        job.request.recovery.copy_every_steps, " steps");
  } else if (!missing.empty()) {
    text = absl::StrCat("nothing until the next copies: ", missing);
  } else {
    text = absl::StrCat("the state after step ", copies.step, DescribeWeakness(job, holders));
  }
  if (!why_none.empty()) absl::StrAppend(&text, "; no copies are made: ", why_none);
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const std::string& error = CopiesReported(job, job.ranks[r]).error;
    if (error.empty()) continue;
    absl::StrAppend(&text, "; the newest copy of rank ", r, " was not made: ", error);
    break;
  }
  return text;
}

}  // namespace paceline
