#include "cli/drill/core/judge.h"

#include <algorithm>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace paceline {
namespace {

// What is wrong with a run, and what to do about it, each once.
struct Faults {
  std::vector<std::string> found;
  std::vector<std::string> mend;

  void Add(const std::string& what, const std::string& how) {
    found.push_back(what);
    mend.push_back(how);
  }
};

std::map<int64_t, std::string> LossesOf(const RunRecord& run) {
  std::map<int64_t, std::string> losses;
  for (const StepMark& mark : run.marks) losses[mark.step] = mark.loss;
  return losses;
}

bool LosesARank(DrillFault fault) {
  return fault == DrillFault::kKill || fault == DrillFault::kStop;
}

std::string EndText(const RunRecord& run) {
  if (run.end == RunEnd::kTookTooLong) {
    return absl::StrCat("the job had not recovered and ended after ", SpanText(run.took),
                        run.reason.empty() ? "" : absl::StrCat(" (", run.reason, ")"));
  }
  return absl::StrCat("the job failed: ", run.reason);
}

void AddEnd(DrillFault fault, const RunRecord& run, const JudgedJob& job, Faults& faults) {
  if (run.end == RunEnd::kSucceeded) return;
  if (LosesARank(fault) && !job.replaces && !job.restarts) {
    faults.Add(EndText(run),
               "give the job recovery: {max_failures: 10, spares: 1}, or max_restarts with "
               "checkpoint.every_steps");
  } else {
    faults.Add(
        EndText(run),
        "see the reason and `paceline job events`; where ranks that come take long for their "
        "first step, lengthen collective_timeout_s, or let spares make it before "
        "(run.steps(rehearse=True))");
  }
}

// A fault costs one change of the ranks, and one that is no loss costs none.
void AddLosses(DrillFault fault, const RunRecord& run, Faults& faults) {
  const int changes = run.losses() + run.restarts;
  const int expected = LosesARank(fault) ? 1 : 0;
  if (changes <= expected || run.end != RunEnd::kSucceeded) return;
  if (fault == DrillFault::kSlow) {
    faults.Add("the rank was only slow, and was taken for lost",
               "lengthen hang_timeout_s and collective_timeout_s");
  } else if (LosesARank(fault)) {
    faults.Add(absl::StrCat("one lost rank made the ranks change ", changes, " times"),
               "lengthen collective_timeout_s if the others do not wait for the first step of the "
               "rank that comes, or let spares make it before (run.steps(rehearse=True))");
  } else {
    faults.Add(absl::StrCat("ranks were lost ", changes, changes == 1 ? " time" : " times",
                            ", though none was disturbed"),
               "look for their reasons in the job's events; timeouts may be too short");
  }
}

void AddMove(DrillFault fault, const RunRecord& run, Faults& faults) {
  if (fault != DrillFault::kDrain || run.end != RunEnd::kSucceeded || run.restarts > 0) return;
  const bool moved = std::any_of(run.changes.begin(), run.changes.end(), [](const auto& change) {
    return change.planned && change.trained != absl::InfiniteFuture();
  });
  if (moved) return;
  faults.Add(
      "the ranks of the node did not move while the job trained",
      "see `paceline job events` of the job, and start the drill with more --steps if a rank "
      "that comes takes long to start");
}

// The ranks that stayed wait in a collective for a newcomer's first step.
void AddFirstStep(const RunRecord& run, const JudgedJob& job, Faults& faults) {
  const absl::Duration first = ChangesOf(run).first_step;
  if (!job.replaces || first < job.timeouts.collective) return;
  faults.Add(absl::StrCat("the first step with the new rank took ", SpanText(first),
                          ", and the others wait for ", SpanText(job.timeouts.collective)),
             "lengthen collective_timeout_s, or let spares make their first step before they are "
             "needed (run.steps(rehearse=True))");
}

void AddSamples(const RunRecord& reference, const RunRecord& run, Faults& faults) {
  if (!reference.ledger.has_value() || !run.ledger.has_value()) return;
  // Samples without a record count as never used, which says nothing.
  if (run.ledger->missing > 0 || reference.ledger->missing > 0) return;
  for (const EpochCounts& epoch : reference.ledger->epochs) {
    for (const EpochCounts& other : run.ledger->epochs) {
      if (other.epoch != epoch.epoch || other == epoch) continue;
      faults.Add(
          absl::StrCat("epoch ", epoch.epoch, " used ", other.again, " samples again and left out ",
                       other.never, ", instead of ", epoch.again, " and ", epoch.never),
          "`paceline job samples` of the job tells which; take batches from run.loader");
      return;
    }
  }
}

bool HasLoaderOfItsOwn(const RunRecord& run) {
  return run.ledger.has_value() && run.ledger->unknown > 0;
}

void AddLossDifference(DrillFault fault, const RunRecord& run,
                       const std::optional<LossDifference>& difference, Faults& faults) {
  if (!difference.has_value()) return;
  const std::string what =
      absl::StrCat("losses differ from step ", difference->step, " on: ", difference->got,
                   " instead of ", difference->expected);
  if (fault == DrillFault::kNone) {
    faults.Add(what,
               "two undisturbed runs have to give the same: take all seeds from run.seed, and "
               "operators that are deterministic. Until then no other run can be judged by losses");
  } else if (HasLoaderOfItsOwn(run)) {
    faults.Add(what,
               "the batches do not come from run.loader: take it, or attach the loader by "
               "own=[loader] with state_dict and load_state_dict that tell its position "
               "(docs/session.md). If it does: state that is not attached, as an average, a "
               "counter or a schedule");
  } else {
    faults.Add(what,
               "some state of the script is not in run.attach: an average, a counter, a schedule, "
               "a scale; or ranks draw random numbers of seeds of their own");
  }
}

// What went well.
std::string PassedText(DrillFault fault, const RunRecord& reference, const RunRecord& run,
                       const JudgedJob& job) {
  std::vector<std::string> parts;
  parts.push_back(job.losses_differ_anyway.empty()
                      ? "the same losses"
                      : absl::StrCat("losses not compared: ", job.losses_differ_anyway));
  if (!run.ledger.has_value() || !reference.ledger.has_value()) {
    parts.emplace_back("samples not known: there is no ledger");
  } else if (HasLoaderOfItsOwn(run)) {
    parts.emplace_back("samples not known: they do not come from run.loader");
  } else if (run.ledger->missing + reference.ledger->missing > 0) {
    parts.push_back(
        absl::StrCat("samples not compared: ", run.ledger->missing, " records missing"));
  } else {
    parts.emplace_back("the same samples");
  }
  const ChangeTimes times = ChangesOf(run);
  if (fault != DrillFault::kNone) {
    parts.push_back(absl::StrCat("no step for ", SpanText(times.pause)));
  }
  if (run.restarts > 0) parts.emplace_back("the job started again");
  if (fault == DrillFault::kStop && job.replaces) {
    parts.push_back(absl::StrCat("hang_timeout_s is ", SpanText(job.timeouts.hang)));
  } else if (fault == DrillFault::kFullDisk) {
    parts.push_back(absl::StrCat(run.failed_saves, " saves failed"));
  }
  return absl::StrJoin(parts, "; ");
}

// Why nothing can be said, as the fault did not happen; empty: it did.
std::string WhyNotRehearsed(DrillFault fault, const RunRecord& run) {
  if (run.end != RunEnd::kSucceeded) return "";
  if (!run.not_done.empty()) return run.not_done;
  if (LosesARank(fault) && run.losses() + run.restarts == 0) {
    return "no rank was lost: the nodes' workers may be of a release that cannot do this to ranks";
  }
  if (fault == DrillFault::kFullDisk && run.failed_saves == 0) {
    return "no save failed: nothing was saved meanwhile, or there was room";
  }
  return "";
}

}  // namespace

const char* VerdictWord(DrillVerdict verdict) {
  switch (verdict) {
    case DrillVerdict::kPassed:
      return "passed";
    case DrillVerdict::kFailed:
      return "failed";
    case DrillVerdict::kNotRehearsed:
      break;
  }
  return "not rehearsed";
}

std::optional<LossDifference> FirstDifference(const RunRecord& reference, const RunRecord& run) {
  const std::map<int64_t, std::string> got = LossesOf(run);
  for (const auto& [step, loss] : LossesOf(reference)) {
    const auto at = got.find(step);
    if (at != got.end() && at->second != loss) return LossDifference{step, loss, at->second};
  }
  return std::nullopt;
}

DrillFinding JudgeReference(const RunRecord& run, const JudgedJob& job) {
  DrillFinding finding;
  finding.check = "reference";
  finding.job = run.job;
  finding.times = ChangesOf(run);
  Faults faults;
  AddEnd(DrillFault::kNone, run, job, faults);
  AddLosses(DrillFault::kNone, run, faults);
  const auto told = static_cast<int64_t>(LossesOf(run).size());
  if (run.end == RunEnd::kSucceeded && told < job.steps) {
    faults.Add(absl::StrCat("the log of rank 0 has the losses of ", told, " steps of ", job.steps),
               "do not turn off its lines (--log-level, --log-format of the workers)");
  }
  if (faults.found.empty()) {
    const RunTimes times = TimesOf(run);
    finding.found = absl::StrCat(job.steps, " steps, ", SpanText(times.median),
                                 " each, the longest ", SpanText(times.longest), "; ",
                                 SpanText(times.until_first), " until the first");
    return finding;
  }
  finding.verdict = DrillVerdict::kFailed;
  finding.found = absl::StrJoin(faults.found, "; ");
  finding.mend = absl::StrJoin(faults.mend, "; ");
  return finding;
}

DrillFinding JudgeRun(DrillFault fault, const RunRecord& reference, const RunRecord& run,
                      const JudgedJob& job) {
  DrillFinding finding;
  finding.check = FaultName(fault);
  finding.job = run.job;
  finding.times = ChangesOf(run);
  finding.found = WhyNotRehearsed(fault, run);
  if (!finding.found.empty()) {
    finding.verdict = DrillVerdict::kNotRehearsed;
    return finding;
  }
  Faults faults;
  AddEnd(fault, run, job, faults);
  AddLosses(fault, run, faults);
  AddMove(fault, run, faults);
  AddFirstStep(run, job, faults);
  AddSamples(reference, run, faults);
  if (job.losses_differ_anyway.empty()) {
    const std::optional<LossDifference> difference = FirstDifference(reference, run);
    if (difference.has_value()) finding.first_difference = difference->step;
    AddLossDifference(fault, run, difference, faults);
  }
  if (faults.found.empty()) {
    finding.found = PassedText(fault, reference, run, job);
    return finding;
  }
  finding.verdict = DrillVerdict::kFailed;
  finding.found = absl::StrJoin(faults.found, "; ");
  finding.mend = absl::StrJoin(faults.mend, "; ");
  return finding;
}

}  // namespace paceline
