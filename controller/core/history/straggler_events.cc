#include "controller/core/history/straggler_events.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace paceline {
namespace {

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
