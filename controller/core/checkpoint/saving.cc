#include "controller/core/checkpoint/saving.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/checkpoint/save_order.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

// For so long, a rank that trains may not tell of a save that it has begun: its daemon was started
// anew, and waits for it.
constexpr absl::Duration kUntoldPatience = absl::Minutes(1);

// A part only moves to a later stage.
int StageOf(SaveState state) {
  switch (state) {
    case SaveState::kWriting:
      return 0;
    case SaveState::kDurable:
      return 1;
    default:
      return 2;
  }
}

bool IsDurable(const std::optional<Save::Part>& part) {
  return part.has_value() && part->state == SaveState::kDurable;
}

bool MayCommit(const Save& save) {
  return save.outcome == Save::Outcome::kUnderWay &&
         std::all_of(save.parts.begin(), save.parts.end(), IsDurable);
}

// Whether every rank is done with its part.
bool IsReportedByAll(const Save& save) {
  return std::all_of(save.parts.begin(), save.parts.end(), [](const auto& part) {
    return part.has_value() && part->state != SaveState::kWriting;
  });
}

bool HasEnded(const Save& save) {
  return save.outcome == Save::Outcome::kComplete || save.outcome == Save::Outcome::kUnknown ||
         (save.outcome == Save::Outcome::kFailed && IsReportedByAll(save));
}

bool LeavesFiles(const Save& save) {
  return std::any_of(save.parts.begin(), save.parts.end(), [](const auto& part) {
    return part.has_value() && part->state != SaveState::kSkipped;
  });
}

CheckpointKey KeyOf(const Job& job, const Save& save) {
  return {save.step, job.generation.value()};
}

std::string RankName(const Job& job, const RankState& rank) {
  return absl::StrCat("rank ", RankOf(job, rank).value(), " on ", rank.slot.node.value());
}

std::string SaveText(int64_t step) { return absl::StrCat("save after step ", step, ": "); }

// "; nothing is heard of node w1": why ranks may fail to agree; empty: all nodes are heard of.
std::string UnreachableText(const Job& job) {
  std::set<std::string> unreachable;
  for (const RankState& rank : job.ranks) {
    if (rank.unreachable_since != absl::InfiniteFuture())
      unreachable.insert(rank.slot.node.value());
  }
  if (unreachable.empty()) return "";
  return absl::StrCat("; nothing is heard of node", unreachable.size() > 1 ? "s " : " ",
                      absl::StrJoin(unreachable, ", "));
}

// Saves of an earlier generation do not count here: they are looked for on disk (membership.h).
bool IsOfThisGeneration(const Job& job, const RankState& rank, const SaveStatus& status) {
  const Generation made =
      status.generation == Generation(0) ? rank.report.id.generation : status.generation;
  return made == job.generation;
}

// Null: the save ended long ago, or there are too many.
Save* FindOrAdd(Job& job, int64_t step, Moment now) {
  auto& saves = job.checkpoints.saves;
  const auto at = std::lower_bound(saves.begin(), saves.end(), step,
                                   [](const Save& save, int64_t s) { return save.step < s; });
  if (at != saves.end() && at->step == step) return &*at;
  if (step <= job.checkpoints.forgotten_step || saves.size() >= kMaxSaves) return nullptr;
  Save save;
  save.step = step;
  save.begun = now.steady;
  save.parts.resize(job.ranks.size());
  return &*saves.insert(at, std::move(save));
}

void Complete(Job& job, Save& save, Moment now) {
  save.outcome = Save::Outcome::kComplete;
  Checkpoint checkpoint;
  checkpoint.key = KeyOf(job, save);
  checkpoint.base = BaseOf(job, save.order);
  for (const auto& part : save.parts) checkpoint.bytes += part.has_value() ? part->bytes : 0;
  checkpoint.ranks = static_cast<int>(job.ranks.size());
  checkpoint.created = now.wall;
  JobCheckpoints& checkpoints = job.checkpoints;
  if (FindCheckpoint(job, checkpoint.key) == nullptr) AddCheckpoint(job, std::move(checkpoint));
  ++checkpoints.committed;
  checkpoints.last_error.clear();
  checkpoints.durable = now.steady - save.begun;
  checkpoints.blocked = absl::ZeroDuration();
  for (const RankState& rank : job.ranks) {
    checkpoints.blocked = std::max(checkpoints.blocked, rank.report.blocked);
  }
  if (save.order != 0) CompleteOrder(job, save.order, save.step);
  PlanNextSave(job, now);
}

void Fail(Job& job, Save& save, const RankState& rank, const SaveStatus& status) {
  save.outcome = Save::Outcome::kFailed;
  JobCheckpoints& checkpoints = job.checkpoints;
  std::string why = status.error;
  if (status.state == SaveState::kSkipped) {
    ++checkpoints.skipped;
    if (why.empty()) why = "left out, for the buffers were still in use";
  } else {
    ++checkpoints.failed[status.failure];
    if (why.empty()) why = "failed";
  }
  why = absl::StrCat(SaveText(save.step), RankName(job, rank), ": ", why, UnreachableText(job));
  if (save.order != 0) FailOrder(job, save.order, why, MayPass(status.failure));
  if (status.state != SaveState::kSkipped) checkpoints.last_error = std::move(why);
}

void LeaveRemnants(Job& job, const Save& save, const std::string& base) {
  auto& remnants = job.checkpoints.remnants;
  const Remnant left{KeyOf(job, save), base};
  if (remnants.size() >= kMaxRemnants) return;
  if (std::count(remnants.begin(), remnants.end(), left) == 0) remnants.push_back(left);
}

// Starts the save over, as a rank has reported a later order for the same step. Reports of the
// earlier try no longer count: shards in two directories make no checkpoint.
void BeginAnew(Save& save, int64_t order, Moment now) {
  const auto is_reported = [](const auto& part) { return part.has_value(); };
  if (std::any_of(save.parts.begin(), save.parts.end(), is_reported)) {
    save.earlier.push_back(save.order);
  }
  save.order = order;
  save.outcome = Save::Outcome::kUnderWay;
  save.begun = now.steady;
  for (auto& part : save.parts) part.reset();
}

bool MayBeginAnew(const Save& save) {
  return save.outcome == Save::Outcome::kUnderWay || save.outcome == Save::Outcome::kFailed;
}

// An order that the ranks could not agree on belongs to no save.
JobChange TakeDisagreement(Job& job, const RankState& rank, const SaveStatus& status) {
  if (status.state != SaveState::kFailed || !IsOrderPending(job) ||
      job.checkpoints.order->number != status.order) {
    return JobChange::kNone;
  }
  ++job.checkpoints.failed[status.failure];
  job.checkpoints.last_error =
      absl::StrCat("save (", job.checkpoints.order->reason, "): ", RankName(job, rank), ": ",
                   status.error.empty() ? "failed" : status.error, UnreachableText(job));
  FailOrder(job, status.order, job.checkpoints.last_error);
  return JobChange::kState;
}

JobChange TakePart(Job& job, const RankState& rank, SaveStatus status, Moment now) {
  const int r = RankOf(job, rank).value();
  // Only rank 0 writes manifests.
  if (r != 0 && status.state == SaveState::kCommitted) status.state = SaveState::kDurable;
  Save* save = FindOrAdd(job, status.step, now);
  if (save == nullptr) return JobChange::kNone;
  if (status.order > save->order && MayBeginAnew(*save)) {
    BeginAnew(*save, status.order, now);
  }
  if (status.order != save->order) return JobChange::kNone;
  std::optional<Save::Part>& part = save->parts[static_cast<size_t>(r)];
  if (part.has_value() && StageOf(status.state) <= StageOf(part->state)) return JobChange::kNone;
  part = Save::Part{status.state, status.bytes};
  JobChange change = JobChange::kProgress;
  if (save->outcome == Save::Outcome::kUnknown && status.state == SaveState::kCommitted) {
    save->outcome = Save::Outcome::kUnderWay;
  }
  if (save->outcome == Save::Outcome::kUnderWay) {
    if (status.state == SaveState::kFailed || status.state == SaveState::kSkipped) {
      Fail(job, *save, rank, status);
      change = JobChange::kState;
    } else if (status.state == SaveState::kCommitted) {
      Complete(job, *save, now);
      change = JobChange::kState;
    } else if (MayCommit(*save)) {
      change = JobChange::kState;
    }
  }
  if (save->outcome == Save::Outcome::kFailed && IsReportedByAll(*save) && LeavesFiles(*save)) {
    LeaveRemnants(job, *save, BaseOf(job, save->order));
    change = JobChange::kState;
  }
  return change;
}

bool IsHeld(const SaveStatus& status) {
  return status.state == SaveState::kWriting && !status.error.empty();
}

// If several ranks hold their state, the first one's reason is shown.
JobChange TakeHold(Job& job) {
  for (const RankState& rank : job.ranks) {
    for (const SaveStatus& status : rank.report.saves) {
      if (!IsHeld(status) || !IsOfThisGeneration(job, rank, status)) continue;
      std::string why =
          absl::StrCat(SaveText(status.step), RankName(job, rank), ": ", status.error);
      // A person who asked for a save elsewhere learns that it fails there too.
      const bool is_asked = IsOrderPending(job) && job.checkpoints.order->number == status.order &&
                            !BaseOf(job, status.order).empty();
      if (is_asked) FailOrder(job, status.order, why, MayPass(status.failure));
      if (why == job.checkpoints.last_error) {
        return is_asked ? JobChange::kState : JobChange::kNone;
      }
      ++job.checkpoints.failed[status.failure];
      job.checkpoints.last_error = std::move(why);
      return JobChange::kState;
    }
  }
  return JobChange::kNone;
}

// For a job without checkpoints whose final weights are held.
JobChange TakeHoldOfWeights(Job& job) {
  if (std::any_of(job.ranks.begin(), job.ranks.end(), HoldsState)) return TakeHold(job);
  if (job.checkpoints.last_error.empty()) return JobChange::kNone;
  job.checkpoints.last_error.clear();
  return JobChange::kState;
}

// Forgets what was reported of the save while it was held.
JobChange ForgetHold(Job& job, int64_t step) {
  if (!absl::StartsWith(job.checkpoints.last_error, SaveText(step))) return JobChange::kNone;
  job.checkpoints.last_error.clear();
  return JobChange::kState;
}

// Rank 0 no longer reports a save that it was allowed to commit: it may lie complete on disk.
void LoseOutcome(Job& job, const RankState& rank, Save& save) {
  save.outcome = Save::Outcome::kUnknown;
  job.checkpoints.last_error = absl::StrCat(
      "save after step ", save.step, ": ", RankName(job, rank),
      " does not tell any more whether it is complete: it is looked for when the ranks have ended");
  if (save.order != 0) FailOrder(job, save.order, job.checkpoints.last_error);
}

// A rank that reports as many saves as it can, but not one that it owes, never will.
JobChange MissLostParts(Job& job, const RankState& rank, Moment now) {
  const auto& reported = rank.report.saves;
  if (reported.size() < kMaxSavesReported) return JobChange::kNone;
  const auto r = static_cast<size_t>(RankOf(job, rank).value());
  const int64_t oldest = reported.front().step;
  std::vector<int64_t> lost;
  for (const Save& save : job.checkpoints.saves) {
    const auto& part = save.parts[r];
    const bool owes = !part.has_value() || StageOf(part->state) < (r == 0 ? 2 : 1);
    const bool open = save.outcome == Save::Outcome::kUnderWay ||
                      (save.outcome == Save::Outcome::kFailed && !IsReportedByAll(save));
    if (open && save.step < oldest && owes) {
      lost.push_back(save.step);
    }
  }
  JobChange change = JobChange::kNone;
  for (const int64_t step : lost) {
    Save& save = *FindOrAdd(job, step, now);
    if (MayCommit(save)) {
      LoseOutcome(job, rank, save);
      change = JobChange::kState;
      continue;
    }
    SaveStatus status;
    status.step = step;
    status.order = save.order;
    status.state = SaveState::kFailed;
    status.failure = SaveFailure::kInconsistent;
    status.error = "does not tell any more what became of its part";
    change = std::max(change, TakePart(job, rank, std::move(status), now));
  }
  return change;
}

// A rank that trains beyond a save's step, and has not begun the save, never will: it has not asked
// for it (Run.save of sessions), as others have. With Slipstream its steps are not the job's.
JobChange MissUnbegunParts(Job& job, const RankState& rank, Moment now) {
  if (job.plan.slipstream.has_value() || rank.report.membership.generation != job.generation) {
    return JobChange::kNone;
  }
  const int r = RankOf(job, rank).value();
  const int64_t done = rank.report.progress.step;
  std::vector<std::pair<int64_t, int64_t>> missed;  // Step and order.
  for (Save& save : job.checkpoints.saves) {
    if (save.outcome != Save::Outcome::kUnderWay || save.step >= done ||
        save.parts[static_cast<size_t>(r)].has_value()) {
      save.untold_since.erase(r);  // It may have gone back to its copy.
      continue;
    }
    const absl::Time since = save.untold_since.emplace(r, now.steady).first->second;
    if (now.steady >= since + kUntoldPatience) missed.emplace_back(save.step, save.order);
  }
  JobChange change = JobChange::kNone;
  for (const auto& [step, order] : missed) {
    SaveStatus status;
    status.step = step;
    status.order = order;
    status.state = SaveState::kFailed;
    status.failure = SaveFailure::kNotAgreed;
    status.error = absl::StrCat("has done ", done - step, " more steps without it");
    if (order == 0) {
      status.error += "; in a session, all ranks are to call run.save() in the same step";
    }
    change = std::max(change, TakePart(job, rank, std::move(status), now));
  }
  return change;
}

bool IsReported(const Job& job, int64_t step) {
  return std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& rank) {
    const auto& saves = rank.report.saves;
    return std::any_of(saves.begin(), saves.end(),
                       [&](const SaveStatus& status) { return status.step == step; });
  });
}

// Notes what the save, by this order and earlier ones, has left in directories that people chose.
void LeaveElsewhere(Job& job, const Save& save) {
  std::set<std::string> bases;
  for (const int64_t order : save.earlier) bases.insert(BaseOf(job, order));
  bases.insert(BaseOf(job, save.order));
  if (save.outcome == Save::Outcome::kComplete) bases.erase(BaseOf(job, save.order));
  bases.erase("");  // The job's own directory is scanned.
  for (const std::string& base : bases) LeaveRemnants(job, save, base);
}

void ForgetEnded(Job& job) {
  auto& saves = job.checkpoints.saves;
  while (!saves.empty() && HasEnded(saves.front()) && !IsReported(job, saves.front().step)) {
    job.checkpoints.forgotten_step = saves.front().step;
    LeaveElsewhere(job, saves.front());
    saves.erase(saves.begin());
  }
}

}  // namespace

JobChange TakeSaves(Job& job, const RankState& rank, Moment now) {
  if (!SavesCheckpoints(job.request)) {
    return rank.report.saves.empty() ? JobChange::kNone : TakeHoldOfWeights(job);
  }
  JobChange change = JobChange::kNone;
  for (const SaveStatus& status : rank.report.saves) {
    if (!IsOfThisGeneration(job, rank, status)) continue;
    change = std::max(change, status.step > 0 ? TakePart(job, rank, status, now)
                                              : TakeDisagreement(job, rank, status));
    if (IsHeld(status)) change = std::max(change, TakeHold(job));
    if (status.state == SaveState::kCommitted && status.order == OrderOfSave(job, status.step)) {
      change = std::max(change, ForgetHold(job, status.step));
    }
  }
  change = std::max(change, MissLostParts(job, rank, now));
  change = std::max(change, MissUnbegunParts(job, rank, now));
  ForgetEnded(job);
  return change;
}

bool HoldsState(const RankState& rank) {
  const auto& saves = rank.report.saves;
  return std::any_of(saves.begin(), saves.end(), IsHeld);
}

std::vector<int64_t> CommitSteps(const Job& job) {
  std::vector<int64_t> steps;
  for (const Save& save : job.checkpoints.saves) {
    if (MayCommit(save)) steps.push_back(save.step);
  }
  return steps;
}

int64_t OrderOfSave(const Job& job, int64_t step) {
  for (const Save& save : job.checkpoints.saves) {
    if (save.step == step) return save.order;
  }
  return 0;
}

void LeaveSavesElsewhere(Job& job) {
  for (const Save& save : job.checkpoints.saves) LeaveElsewhere(job, save);
}

std::vector<int64_t> StepsUnderWay(const Job& job) {
  std::vector<int64_t> steps;
  for (const Save& save : job.checkpoints.saves) {
    if (save.outcome == Save::Outcome::kUnderWay) steps.push_back(save.step);
  }
  return steps;
}

}  // namespace paceline
