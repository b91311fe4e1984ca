#include "controller/core/recovery/recovery.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/blame.h"
#include "controller/core/recovery/collectives.h"
#include "controller/core/recovery/copies.h"
#include "controller/core/recovery/copy_trouble.h"
#include "controller/core/recovery/elastic.h"
#include "controller/core/recovery/failure_budget.h"
#include "controller/core/recovery/hang.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/next_generation.h"
#include "controller/core/recovery/planned_change.h"
#include "controller/core/recovery/state_groups.h"
#include "controller/core/recovery/unreachable.h"

namespace paceline {
namespace {

// After so many failures of spares in a row the pause between starts is kMaxSparePause.
constexpr int kSpareFailuresReported = 7;

// Whether the member waits with an error that counts. Errors from generations before those that are
// to train now are echoes of what ended these.
bool WaitsWithError(const Job& job, const RankState& member) {
  const MembershipStatus& status = member.report.membership;
  if (!status.waiting || status.error.empty() || HasEnded(member)) return false;
  const MembershipChange* change = ChangeUnderWay(job);
  const bool planned = change != nullptr && change->planned;
  return !(status.left < (planned ? NewestThatCameAbout(job) : job.generation));
}

const RankState* FindWaiting(const Job& job) {
  for (const RankState& member : job.ranks) {
    if (!IsLost(member) && WaitsWithError(job, member)) return &member;
  }
  return nullptr;
}

std::string Describe(const Job& job, const RankState& member) {
  const std::string& why = HasFailed(member) ? member.report.exit->message : member.lost;
  return absl::StrCat("rank ", RankOf(job, member).value(), " on ", member.slot.node.value(),
                      FailedInRehearsal(member) ? ", while it rehearsed a step: " : ": ", why);
}

std::vector<const RankState*> LostMembers(const Job& job) {
  std::vector<const RankState*> lost;
  for (const RankState& member : job.ranks) {
    if (IsLost(member)) lost.push_back(&member);
  }
  return lost;
}

// The lost member that explains the others.
const RankState& FirstCause(const std::vector<const RankState*>& lost) {
  const auto cause = std::find_if(lost.begin(), lost.end(), [](const RankState* member) {
    return !HasFailed(*member) || !IsEcho(*member->report.exit);
  });
  return cause == lost.end() ? *lost.front() : **cause;
}

JobChange Fail(Job& job, const RankState& member, const std::string& why, Moment now) {
  JobFailure failure{
      RankOf(job, member), member.slot.node,
      HasFailed(member)
          ? *member.report.exit
          : LostExit(member.report,
                     member.lost.empty() ? member.report.membership.error : member.lost)};
  const std::string reason = absl::StrCat(why, ": rank ", failure.rank.value(), " on ",
                                          failure.node.value(), ": ", failure.exit.message);
  StopForFailure(job, std::move(failure), reason, now);
  return JobChange::kState;
}

// Why the job cannot recover from the losses; empty: it can. `news`: some were just counted.
std::string WhyNot(Job& job, const std::vector<const RankState*>& lost, bool news) {
  if (news) {
    for (const RankState* member : lost) {
      std::string why = WhyHopeless(job, *member);
      if (why.empty()) continue;
      job.recovery.hopeless = true;
      return why;
    }
    if (std::string why = WhyBudgetIsSpent(job); !why.empty()) return why;
  }
  if (IsOver(job)) return "other ranks have done all steps";
  return WhyItCannotGoOn(job);
}

JobChange RecoverLost(Job& job, const FindSlots& find_slots, Moment now) {
  const std::vector<const RankState*> lost = LostMembers(job);
  if (lost.empty()) return JobChange::kNone;
  const bool news = std::any_of(lost.begin(), lost.end(),
                                [](const RankState* member) { return !member->counted; });
  if (news) {
    ForgetTrouble(job);
    for (RankState& member : job.ranks) {
      if (IsLost(member)) CountLoss(job, member, now);
    }
  }
  // While they wait for a slot, the last members that have the state may be lost.
  const std::string why = WhyNot(job, lost, news);
  if (!why.empty()) return Fail(job, FirstCause(lost), why, now);
  const bool begins = std::exchange(job.state, JobState::kRecovering) != JobState::kRecovering;
  job.recovery.recovering_since = std::min(job.recovery.recovering_since, now.steady);
  const std::string cause =
      absl::StrCat(Describe(job, FirstCause(lost)),
                   lost.size() > 1 ? absl::StrCat(", and ", lost.size() - 1, " more lost") : "");
  const JobChange change = Replace(job, cause, find_slots, now);
  return news || begins ? JobChange::kState : change;
}

// Starts a generation of the same members. If a change to another strategy fails, that is no
// failure of the job: it goes on by the one before.
JobChange RendezvousAgain(Job& job, const RankState& reported, const std::string& why,
                          const FindSlots& find_slots, Moment now) {
  JobRecovery& recovery = job.recovery;
  std::string over;
  // Once, however long the next generation waits for slots or copies.
  const bool counts = !job.former_plan.has_value() && recovery.troubled != job.generation;
  if (counts) {
    recovery.troubled = job.generation;
    CountTrouble(job, now);
    over = WhyBudgetIsSpent(job);
  }
  if (over.empty() && IsOver(job)) over = "other ranks have done all steps";
  // Members may have given their states up for others that they have not got, or have not been
  // handed over what is nowhere else.
  if (over.empty() &&
      (job.request.shards > 1 || HasLoneMember(job) || job.recovery.copies.restoring)) {
    over = WhyItCannotGoOn(job);
  }
  if (!over.empty()) return Fail(job, reported, over, now);
  recovery.next_planned = now.steady + kPlannedPause;
  const bool begins = std::exchange(job.state, JobState::kRecovering) != JobState::kRecovering;
  recovery.recovering_since = std::min(recovery.recovering_since, now.steady);
  const JobChange change = Replace(job, why, find_slots, now);
  return counts || begins ? JobChange::kState : change;
}

JobChange TakeTrouble(Job& job, const FindSlots& find_slots, Moment now) {
  const RankState* waiting = FindWaiting(job);
  JobRecovery& recovery = job.recovery;
  if (waiting == nullptr) {
    recovery.trouble_since = absl::InfiniteFuture();
    return JobChange::kNone;
  }
  recovery.trouble_since = std::min(recovery.trouble_since, now.steady);
  // A lost rank that waits for a slot explains it; an unreachable node or a hanging rank will do
  // so.
  const bool explained = std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankState& m) {
    return IsLost(m) || m.unreachable_since != absl::InfiniteFuture() ||
           m.stacks_deadline != absl::InfiniteFuture();
  });
  if (explained || now.steady < recovery.trouble_since + kEchoPatience) return JobChange::kNone;
  return RendezvousAgain(
      job, *waiting,
      absl::StrCat("rank ", RankOf(job, *waiting).value(), " on ", waiting->slot.node.value(), ": ",
                   waiting->report.membership.error),
      find_slots, now);
}

// Looks for a hanging rank, and gives it up when its stacks are saved.
JobChange TakeHang(Job& job, const FindSlots& find_slots, Moment now) {
  for (RankState& member : job.ranks) {
    if (member.stacks_deadline == absl::InfiniteFuture()) continue;
    const std::string& file = member.report.stacks_file;
    if (now.steady < member.stacks_deadline && file.empty() && !HasEnded(member)) {
      return JobChange::kNone;
    }
    member.stacks_deadline = absl::InfiniteFuture();
    member.lost =
        file.empty() ? member.hangs : absl::StrCat(member.hangs, "; its stacks are in ", file);
    return JobChange::kState;
  }
  if (job.state != JobState::kRunning || IsOver(job)) return JobChange::kNone;
  const auto verdict = FindHung(job, now.steady);
  if (!verdict.has_value()) return JobChange::kNone;
  if (verdict->all_wait) {
    return RendezvousAgain(job, job.ranks.front(), verdict->why, find_slots, now);
  }
  RankState& culprit = job.ranks[static_cast<size_t>(verdict->rank.value())];
  culprit.hangs = verdict->why;
  culprit.stacks_deadline = culprit.report.suspended ? now.steady : now.steady + kStacksPatience;
  return JobChange::kState;
}

bool AllTrain(const Job& job) {
  return std::all_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
    return !IsLost(member) && member.report.membership.generation == job.generation;
  });
}

// Whether a rank that was handed its state may train, unheard: nobody of the generation answers.
// Then the one that has left must not take its seat back yet.
bool MayHaveTakenOver(const Job& job) {
  bool takes_over = false;
  for (const RankState& member : job.ranks) {
    if (member.unreachable_since == absl::InfiniteFuture()) return false;
    takes_over = takes_over || member.hands_over;
  }
  return takes_over;
}

JobChange TakeChangeUnderWay(Job& job, const FindSlots& find_slots, Moment now) {
  const MembershipChange* change = ChangeUnderWay(job);
  if (change == nullptr) return JobChange::kNone;
  if (AllTrain(job)) {
    CompleteChange(job, now);
    return JobChange::kState;
  }
  // A member that was lost after the rendezvous, and waits to be replaced, is the reason.
  if (!LostMembers(job).empty()) return JobChange::kNone;
  JobRecovery& recovery = job.recovery;
  // A mean of all parameters before it is a collective of its own.
  const absl::Duration patience =
      job.request.timeouts.collective * (change->averages_first ? 2 : 1);
  if (recovery.deadline == absl::InfiniteFuture() && !StoreAddress(job).empty()) {
    recovery.deadline = now.steady + patience;
  }
  if (now.steady < recovery.deadline || MayHaveTakenOver(job)) return JobChange::kNone;
  bool stopped = false;
  for (RankState& member : job.ranks) {
    if (!member.report.suspended || IsLost(member)) continue;
    member.lost = "its process is stopped";
    stopped = true;
  }
  if (stopped) return RecoverLost(job, find_slots, now);
  const auto missing =
      std::find_if(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
        return member.report.membership.generation != job.generation;
      });
  const std::string why =
      absl::StrCat("generation ", job.generation.value(), " did not come about within ",
                   absl::ToDoubleSeconds(patience), " s: rank ", RankOf(job, *missing).value(),
                   " on ", missing->slot.node.value(), " is missing");
  return RendezvousAgain(job, *missing, why, find_slots, now);
}

JobChange GiveUp(Job& job, Moment now) {
  const absl::Duration patience = job.request.timeouts.give_up;
  if (job.state != JobState::kRecovering || now.steady < job.recovery.recovering_since + patience) {
    return JobChange::kNone;
  }
  const auto lost = LostMembers(job);
  return Fail(job, lost.empty() ? job.ranks.front() : FirstCause(lost),
              absl::StrCat("the members could not go on within give_up_s (",
                           absl::ToDoubleSeconds(patience), " s)"),
              now);
}

// Whether it is the spare that was started last.
bool IsNewest(const Job& job, const RankState& spare) {
  const TrainerId& id = spare.report.id;
  return id.generation == job.generation && id.rank == Rank(job.recovery.next_spare - 1);
}

// Notes for people how a spare failed. Once the pause grows no more, the failures go on at a pace
// that is reported once.
void NoteSpareFailure(Job& job, const RankState& spare, absl::Duration pause) {
  JobRecovery& recovery = job.recovery;
  if (!HasFailed(spare) || recovery.spares_failed > kSpareFailuresReported) return;
  const std::string next =
      recovery.spares_failed < kSpareFailuresReported
          ? "another one starts after "
          : absl::StrCat(recovery.spares_failed,
                         " have failed in a row; until one is ready, no more such failures are "
                         "reported, and the next ones start each after ");
  recovery.spare_failure = absl::StrCat(
      "a spare on ", spare.slot.node.value(), " failed",
      FailedInRehearsal(spare) ? " while it rehearsed a step: " : ": ", spare.report.exit->message,
      "; ", next, absl::ToDoubleSeconds(pause), " s at the earliest");
  ++recovery.spare_failures_reported;
}

// Forgets trainers whose end was reported.
JobChange ForgetEnded(Job& job, Moment now) {
  JobChange change = JobChange::kNone;
  for (const RankState& spare : job.spares) {
    JobRecovery& recovery = job.recovery;
    // An earlier one may stand by while all later ones fail.
    if (IsReady(spare) && IsNewest(job, spare)) recovery.spares_failed = 0;
    if (!HasEnded(spare)) continue;
    const int doublings = std::min(recovery.spares_failed++, kSpareFailuresReported - 1);
    const absl::Duration pause = std::min(kFirstSparePause * (1 << doublings), kMaxSparePause);
    recovery.next_spare_start = now.steady + pause;
    NoteSpareFailure(job, spare, pause);
  }
  for (auto* part : {&job.spares, &job.leaving}) {
    const auto first = std::remove_if(part->begin(), part->end(), HasEnded);
    if (first != part->end()) change = JobChange::kState;
    part->erase(first, part->end());
  }
  return change;
}

JobChange TellStall(Job& job, Moment now) {
  if (job.state != JobState::kRunning || job.checkpoints.stop_after.has_value()) {
    return JobChange::kNone;
  }
  std::string reason = DescribeStall(job, now.steady);
  if (job.recovery.unreachable_counts == absl::InfiniteFuture() &&
      !job.ranks.front().node_lost.empty()) {
    reason =
        "none of its nodes answers; the ranks may train on, so nothing is moved until one answers, "
        "or is declared lost (paceline node lost)";
  }
  const JobChange asked = TellCollectives(job, !reason.empty(), now);
  const bool reported = job.recovery.stalled;
  job.recovery.stalled = !reason.empty();
  if (reason.empty() && !reported) return asked;
  if (reason.empty()) reason = TrainingText(job);
  if (!job.collectives.findings.empty()) {
    absl::StrAppend(&reason, "; ", job.collectives.findings.front());
  }
  const bool is_new = std::exchange(job.reason, reason) != reason;
  return std::max(asked, is_new ? JobChange::kProgress : JobChange::kNone);
}

// The same for a job that starts.
JobChange TellStart(Job& job, Moment now) {
  if (job.state != JobState::kStarting) return JobChange::kNone;
  const std::string late = DescribeStart(job, now.wall);
  if (late.empty()) return JobChange::kNone;
  const std::string reason = absl::StrCat(StartReason(job), "; ", late);
  return std::exchange(job.reason, reason) == reason ? JobChange::kNone : JobChange::kProgress;
}

void SetWake(Job& job, Moment now) {
  const JobRecovery& recovery = job.recovery;
  absl::Time wake = absl::InfiniteFuture();
  const auto at = [&](absl::Time time) {
    if (time > now.steady) wake = std::min(wake, time);
  };
  at(NextHangCheck(job, now.steady));
  at(NextCollectives(job));
  if (job.state == JobState::kStarting) at(now.steady + kStartInterval);
  if (Recovers(job)) {
    at(recovery.deadline);
    at(recovery.unreachable_counts);
    at(recovery.trouble_since + kEchoPatience);
    at(recovery.recovering_since + kReturn);
    at(recovery.recovering_since + job.request.timeouts.give_up);
    at(recovery.next_planned);
    at(recovery.next_spare_start);
    const bool may_grow = static_cast<int>(job.ranks.size()) < MostRanks(job.request);
    if (IsElastic(job.request) && may_grow) at(recovery.next_growth);
    at(recovery.next_mending);
    for (const RankState& member : job.ranks) {
      at(member.stacks_deadline);
      at(UnreachableUntil(job, member));
    }
  }
  job.recovery.wake = wake;
}

JobChange Advance(Job& job, const FindSlots& find_slots, Moment now) {
  const bool counts = DoesUnreachableCount(job, now);
  JobChange change = counts ? LoseNodes(job, now) : JobChange::kNone;
  change = std::max(change, ForgetEnded(job, now));
  const auto take = [&](JobChange next) { change = std::max(change, next); };
  take(TakeCopies(job, now));
  take(NoteCopyTrouble(job));
  if (job.state == JobState::kStarting) return std::max(change, KeepSpares(job, find_slots, now));
  take(TakeHang(job, find_slots, now));
  if (counts) GiveUpUnreachable(job, now);
  take(GiveUp(job, now));
  // Each of these may end the job, or queue it again.
  const auto goes_on = [&] {
    return job.state == JobState::kRunning || job.state == JobState::kRecovering;
  };
  if (goes_on()) take(RecoverLost(job, find_slots, now));
  // Spares that take their seats may be of an earlier release, too.
  while (goes_on() && GiveUpWhoCannotGoBack(job) != JobChange::kNone) {
    take(RecoverLost(job, find_slots, now));
  }
  if (goes_on()) take(TakeTrouble(job, find_slots, now));
  if (goes_on()) take(TakeChangeUnderWay(job, find_slots, now));
  if (job.state != JobState::kRunning) return change;
  take(BeginPlannedChange(job, now));
  return std::max(change, KeepSpares(job, find_slots, now));
}

}  // namespace

JobChange AdvanceMembership(Job& job, const FindSlots& find_slots, Moment now) {
  JobChange change = JobChange::kNone;
  if (!HasMembers(job)) {
    job.recovery.wake = absl::InfiniteFuture();
    return change;
  }
  if (Recovers(job)) change = Advance(job, find_slots, now);
  change = std::max({change, TellStall(job, now), TellStart(job, now)});
  SetWake(job, now);
  return change;
}

void RestoreRecovery(Job& job, Moment now) {
  JobRecovery& recovery = job.recovery;
  for (MemberFailure& failure : recovery.failures) {
    failure.steady = now.steady - std::max(now.wall - failure.wall, absl::ZeroDuration());
  }
  RestoreUnreachable(job, now);
  for (auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (RankState& trainer : *part) {
      if (trainer.stop.has_value()) trainer.stop->deadline = now.steady + trainer.stop->grace;
      if (!trainer.hangs.empty() && trainer.lost.empty()) {
        trainer.stacks_deadline = now.steady + kStacksPatience;
      }
    }
  }
  if (job.state == JobState::kRecovering) recovery.recovering_since = now.steady;
  if (!Recovers(job) || job.ended_already()) return;
  recovery.growth_to = recovery.give_back_to = 0;
  recovery.idle_since = absl::InfiniteFuture();
  recovery.next_growth = now.steady + kReconnectGrace;
  recovery.next_planned = now.steady + kPlannedPause;
  recovery.next_spare_start = now.steady + kReconnectGrace;
  if (job.request.shards > 1) recovery.next_mending = now.steady + kMendingPause;
  recovery.wake = now.steady;
}

}  // namespace paceline
