#include "controller/core/history/event_text.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/core/bytes_text.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/copy_trouble.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/restart.h"
#include "controller/core/recovery/unreachable.h"
#include "controller/core/stragglers/slipstream/strategy_advice.h"

namespace paceline {
namespace {

// If there are more nodes, only their number is given.
constexpr size_t kNodesNamed = 4;

std::string NodesText(const std::vector<NodeName>& nodes) {
  std::vector<std::string> names;
  for (const NodeName& node : nodes) {
    if (names.size() == kNodesNamed) {
      names.push_back(absl::StrCat("and ", nodes.size() - kNodesNamed, " more"));
      break;
    }
    names.push_back(node.value());
  }
  return absl::StrJoin(names, ", ");
}

std::string RanksText(int ranks) { return absl::StrCat(ranks, ranks == 1 ? " rank" : " ranks"); }

bool IsOver(JobState state) {
  return state == JobState::kSucceeded || state == JobState::kFailed ||
         state == JobState::kCancelled;
}

std::string PlanText(const Job& job) {
  return job.request.strategy.has_ladder ? absl::StrCat("ladder ", DescribeLadder(job.plan.ladder))
                                         : DescribeStrategy(job.plan.slipstream);
}

std::string CheckpointText(const Job& job) {
  const Checkpoint& newest = *NewestComplete(job);
  return absl::StrCat("checkpoint of step ", newest.key.step, " is complete, ",
                      BytesText(newest.bytes), ", in ", DirectoryOf(job, newest));
}

std::string EvaluationText(const Evaluation& evaluation) {
  const std::string accuracy =
      evaluation.accuracy.has_value()
          ? absl::StrFormat("accuracy %.2f %%, ", 100 * *evaluation.accuracy)
          : "";
  return absl::StrFormat("evaluated after step %d: %sloss %.4g", evaluation.step, accuracy,
                         evaluation.loss);
}

std::string SettledText(const MembershipChange& change) {
  const std::string ranks =
      change.ranks_before == change.ranks_after
          ? RanksText(change.ranks_after)
          : absl::StrCat(change.ranks_after, " instead of ", RanksText(change.ranks_before));
  return absl::StrFormat("generation %d trains on from step %d with %s, after %.3g s",
                         change.generation.value(), change.step, ranks,
                         absl::ToDoubleSeconds(change.ended - change.begun));
}

// Puts a job's transitions into words, in their order. A transition that another one implies adds
// no event of its own.
class Writer {
 public:
  explicit Writer(const Job& job) : job_(job) {}

  std::vector<JobLifeEvent> TakeEvents() { return std::move(events_); }

  void operator()(const transition::Submitted&) {
    Add(JobEventKind::kState,
        absl::StrCat("submitted as ", job_.request.name, ", ", RanksText(job_.request.ranks),
                     ", queue ", job_.request.queue));
  }
  void operator()(const transition::Resumed&) {
    const std::string from = ChooseStart(job_);
    Add(JobEventKind::kState, absl::StrCat("resumed", from.empty() ? "" : " from ", from));
  }
  void operator()(const transition::StartsAgain& again) {
    if (again.failed) return Warn(JobEventKind::kRestart, job_.restart_reason);
    Add(JobEventKind::kRestart, absl::StrCat("queued again: ", job_.restart_reason));
  }
  void operator()(const transition::Started&) {
    Add(JobEventKind::kState,
        absl::StrCat("generation ", job_.recovery.started.value(), " starts on ",
                     NodesText(job_.nodes), job_.restored_from.empty() ? "" : " from ",
                     job_.restored_from));
  }
  void operator()(const transition::StateChanged& changed) {
    switch (job_.state) {
      case JobState::kQueued:
        if (!Has(JobEventKind::kRestart) && !job_.reason.empty() && !IsOver(changed.from)) {
          Add(JobEventKind::kState, job_.reason);
        }
        return;
      case JobState::kStarting:
        return;  // `Started` says it.
      case JobState::kRunning:
        if (!Has(JobEventKind::kMembership)) Add(JobEventKind::kState, TrainingText(job_));
        return;
      case JobState::kRecovering:
        if (!Has(JobEventKind::kMembership)) Warn(JobEventKind::kMembership, job_.reason);
        return;
      case JobState::kStopping:
        return Add(JobEventKind::kState, job_.reason, job_.failure.has_value());
      case JobState::kSucceeded:
      case JobState::kFailed:
      case JobState::kCancelled: {
        const bool failed = job_.state == JobState::kFailed;
        const char* const known = failed ? "the job has failed" : "the job is cancelled";
        return Add(JobEventKind::kState, changed.same_reason ? known : job_.reason, failed);
      }
    }
  }
  void operator()(const transition::LabelsChanged& changed) {
    std::vector<std::string> parts;
    if (!changed.changes.empty()) {
      parts.push_back(absl::StrCat("labels changed: ", absl::StrJoin(changed.changes, ", ")));
    }
    if (changed.description) parts.push_back("description changed");
    Add(JobEventKind::kLabels, absl::StrJoin(parts, "; "));
  }
  void operator()(const transition::StopAfterSaveAsked&) {
    Add(JobEventKind::kState, absl::StrCat("is to end when a checkpoint is saved: ",
                                           job_.checkpoints.stop_after->reason));
  }

  void operator()(const transition::MembershipChanged& changed) {
    Add(JobEventKind::kMembership,
        absl::StrCat("generation ", changed.change.generation.value(), ": ", changed.change.reason),
        !changed.change.planned);
  }
  void operator()(const transition::MembershipSettled& settled) {
    Add(JobEventKind::kMembership, SettledText(settled.change));
  }
  void operator()(const transition::RanksMustLeave& leave) {
    Add(JobEventKind::kMembership,
        absl::StrCat("its ranks will move off ", leave.node.value(), ": ", leave.why));
  }
  void operator()(const transition::DrainWaits& waits) {
    Warn(JobEventKind::kMembership,
         absl::StrCat(waits.why,
                      "; what it has there does not end yet: ", WhatSilenceWaitsFor(waits.node)));
  }
  void operator()(const transition::SpareFailed&) {
    Warn(JobEventKind::kMembership, job_.recovery.spare_failure);
  }
  void operator()(const transition::Stalled&) { Warn(JobEventKind::kStall, job_.reason); }
  void operator()(const transition::StallEnded&) {
    Add(JobEventKind::kStall,
        HasEngine(job_.request) ? "steps are made again" : "the ranks are active again");
  }
  void operator()(const transition::CollectivesFound&) {
    Warn(JobEventKind::kStall, absl::StrJoin(job_.collectives.findings, "; "));
  }

  void operator()(const transition::Evaluated&) {
    Add(JobEventKind::kEvaluation, EvaluationText(*job_.evaluation));
  }
  void operator()(const transition::PlanDecided&) {
    Add(JobEventKind::kPlan,
        absl::StrCat("plan version ", job_.plan.version.value(), ": ", PlanText(job_)));
  }
  void operator()(const transition::PlanTakenUp& taken) {
    Add(JobEventKind::kPlan, absl::StrCat("all ranks train by plan version ", taken.version.value(),
                                          " since step ", taken.since_step));
  }
  void operator()(const transition::PlanNotTakenUp& failed) {
    Warn(JobEventKind::kPlan,
         absl::StrCat("plan version ", failed.version.value(), " is not taken up, as rank ",
                      failed.rank.value(), " on ", failed.node.value(),
                      " could not prepare it: ", failed.error));
  }
  void operator()(const transition::SlipstreamImpossible& impossible) {
    Warn(JobEventKind::kPlan,
         absl::StrCat("strategy auto stays with ddp for this model: ", impossible.why));
  }

  void operator()(const transition::CheckpointCompleted&) {
    Add(JobEventKind::kCheckpoint, CheckpointText(job_));
  }
  void operator()(const transition::CheckpointFailed&) {
    const std::string& error = job_.checkpoints.last_error;
    Warn(JobEventKind::kCheckpoint,
         absl::StrCat("a checkpoint failed: ", error.empty() ? "the reason is not known" : error));
  }
  void operator()(const transition::CheckpointErrorChanged&) {}  // The job's page shows it.
  void operator()(const transition::CopiesInTrouble&) {
    Warn(JobEventKind::kMembership, DescribeCopyTrouble(job_));
  }
  void operator()(const transition::CopiesInTime&) {
    Add(JobEventKind::kMembership,
        absl::StrCat("copies in host memory are in time again: the state after step ",
                     job_.recovery.copies.step));
  }

  void operator()(const transition::VerdictFound& found) {
    events_.push_back(EventOf(found.verdict));
  }
  void operator()(const transition::DecisionChanged& changed) {
    events_.push_back(EventOf(changed.decision));
  }

 private:
  void Add(JobEventKind kind, std::string what, bool warning = false) {
    JobLifeEvent event;
    event.kind = kind;
    event.warning = warning;
    event.what = std::move(what);
    events_.push_back(std::move(event));
  }
  void Warn(JobEventKind kind, std::string what) { Add(kind, std::move(what), /*warning=*/true); }
  // Whether an event of this kind was added already.
  bool Has(JobEventKind kind) const {
    return std::any_of(events_.begin(), events_.end(),
                       [&](const JobLifeEvent& event) { return event.kind == kind; });
  }

  const Job& job_;
  std::vector<JobLifeEvent> events_;
};

const char* NameOf(StragglerCause cause) {
  switch (cause) {
    case StragglerCause::kCompute:
      return "compute";
    case StragglerCause::kData:
      return "waiting for data";
    case StragglerCause::kHostPause:
      return "host pause";
    case StragglerCause::kCommunication:
      return "communication";
    case StragglerCause::kImbalance:
      return "imbalance";
  }
  return "";
}

std::string SubjectOf(const ReportedVerdict& reported) {
  if (reported.exchange.has_value()) {
    return absl::StrFormat("the exchange of ranks %d-%d", reported.exchange->first_rank,
                           reported.exchange->first_rank + reported.exchange->ranks - 1);
  }
  const Verdict& verdict = reported.verdict;
  if (verdict.rank >= 0) return absl::StrCat("rank ", verdict.rank, " on ", reported.node.value());
  if (!reported.node.value().empty()) return absl::StrCat("node ", reported.node.value());
  return absl::StrCat("peer group ", verdict.peer_group, " as a whole");
}

// "1.65 (1.64-1.65) times its peers since step 150, by host pause; 34 % of the job's time lost".
std::string EvidenceOf(const Verdict& verdict) {
  return absl::StrFormat(
      "%.2f (%.2f-%.2f) times its peers since step %d, by %s; %.0f %% of the "
      "job's time lost",
      verdict.slowdown, verdict.slowdown_low, verdict.slowdown_high, verdict.since_step,
      NameOf(verdict.cause), 100 * verdict.lost_share);
}

std::string OutcomeOf(const RemedyDecision& decision) {
  return decision.outcome.empty() ? "" : absl::StrCat(": ", decision.outcome);
}

}  // namespace

std::vector<JobLifeEvent> EventsOf(const Job& job, const std::vector<JobTransition>& transitions) {
  Writer writer(job);
  for (const JobTransition& happened : transitions) std::visit(writer, happened);
  return writer.TakeEvents();
}

JobLifeEvent EventOf(const ReportedVerdict& reported) {
  const std::string subject = SubjectOf(reported);
  JobLifeEvent event;
  event.kind = JobEventKind::kStraggler;
  switch (reported.verdict.kind) {
    case VerdictKind::kSuspect:
      event.warning = true;
      event.what = absl::StrCat(subject, " is slow: ", EvidenceOf(reported.verdict));
      break;
    case VerdictKind::kPersistent:
      event.warning = true;
      event.what = absl::StrCat(subject, " stays slow: ", EvidenceOf(reported.verdict));
      break;
    case VerdictKind::kNode:
      event.warning = true;
      event.what = absl::StrCat(subject, " has several slow ranks: ", EvidenceOf(reported.verdict));
      break;
    case VerdictKind::kGroup:
      event.warning = true;
      event.what = absl::StrFormat("%s is slow: %.2f times its usual time since step %d", subject,
                                   reported.verdict.slowdown, reported.verdict.since_step);
      break;
    case VerdictKind::kTransient:
    case VerdictKind::kRecovered:
      event.what = absl::StrCat(subject, " is slow no longer, since step ", reported.verdict.step);
      break;
  }
  return event;
}

JobLifeEvent EventOf(const RemedyDecision& decision) {
  const std::string remedy = DescribeRemedy(decision);
  JobLifeEvent event;
  event.kind = JobEventKind::kDecision;
  const auto tell = [&](const std::string& what) {
    event.what = absl::StrCat(what, " (decision ", decision.id, ")");
  };
  switch (decision.state) {
    case DecisionState::kAdvised:
      tell(absl::StrCat("advised: ", remedy));
      absl::StrAppend(&event.what, ": ", decision.reason);
      break;
    case DecisionState::kOrdered:
      tell(absl::StrCat("ordered by ",
                        decision.automatic || decision.by.empty() ? "the automation" : decision.by,
                        ": ", remedy));
      break;
    case DecisionState::kChecking:
      tell(absl::StrCat("done: ", remedy));
      absl::StrAppend(&event.what, "; its effect is measured");
      break;
    case DecisionState::kDone:
      tell(absl::StrCat("done: ", remedy));
      break;
    case DecisionState::kHelped:
      tell(absl::StrCat("helped: ", remedy));
      event.what += OutcomeOf(decision);
      break;
    case DecisionState::kDidNotHelp:
      event.warning = true;
      tell(absl::StrCat("did not help: ", remedy));
      event.what += OutcomeOf(decision);
      break;
    case DecisionState::kUnchecked:
      tell(absl::StrCat("whether it helped is not known: ", remedy));
      event.what += OutcomeOf(decision);
      break;
    case DecisionState::kFailed:
      event.warning = true;
      tell(absl::StrCat("failed: ", remedy));
      event.what += OutcomeOf(decision);
      break;
    case DecisionState::kWithdrawn:
      tell(absl::StrCat("withdrawn: ", remedy));
      event.what += OutcomeOf(decision);
      break;
  }
  return event;
}

}  // namespace paceline
