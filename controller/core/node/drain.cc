#include "controller/core/node/drain.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "controller/core/checkpoint/job_checkpoints.h"
#include "controller/core/recovery/membership.h"
#include "controller/core/recovery/restart.h"
#include "controller/core/recovery/unreachable.h"

namespace paceline {
namespace {

// Says where the job would start if it were stopped now.
std::string StartText(const Job& job) {
  if (!HasEngine(job.request)) return "starts its program again";
  const std::string from = ChooseStart(job);
  return from.empty() ? "starts over" : absl::StrCat("goes on from ", from);
}

DrainWay ChooseWay(const Job& job, DrainMode mode) {
  if (mode == DrainMode::kFinish || job.state == JobState::kStopping) return DrainWay::kFinish;
  if (job.state == JobState::kStarting) return DrainWay::kRequeue;
  if (mode == DrainMode::kNow) return Recovers(job) ? DrainWay::kEndRanks : DrainWay::kRequeue;
  if (mode == DrainMode::kSwap && !WhyRanksCannotMove(job).has_value()) return DrainWay::kSwap;
  return SavesCheckpoints(job.request) ? DrainWay::kSaveAndRequeue : DrainWay::kFinish;
}

std::string RanksText(const std::vector<int>& ranks) {
  if (ranks.empty()) return "its spares there";
  return absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", absl::StrJoin(ranks, ", "));
}

std::string NodesText(const char* what, const std::vector<NodeName>& nodes) {
  std::vector<std::string> names;
  for (const NodeName& node : nodes) {
    if (std::find(names.begin(), names.end(), node.value()) == names.end()) {
      names.push_back(node.value());
    }
  }
  return absl::StrCat(what, nodes.size() == 1 ? "" : "s", " on ", absl::StrJoin(names, ", "));
}

// How the text begins if the ranks cannot move while the job trains on; empty: they can.
std::string NoSwapText(const Job& job, DrainMode mode) {
  const auto why = mode == DrainMode::kSwap ? WhyRanksCannotMove(job) : std::nullopt;
  return why.has_value() ? absl::StrCat("cannot move while it trains (", *why, "): ") : "";
}

std::string FinishText(const Job& job, DrainMode mode) {
  if (job.state == JobState::kStopping) return "is ending";
  if (!HasEngine(job.request)) {
    if (mode == DrainMode::kFinish) return "runs to its end here";
    return absl::StrCat(
        "runs to its end here, as a program of its own cannot move while it runs; at the deadline, "
        "or with mode now, it is stopped (SIGTERM, and SIGKILL ",
        absl::ToDoubleSeconds(StopGraceOf(job.request)),
        " s later) and starts again elsewhere when there is room");
  }
  if (mode == DrainMode::kFinish) return "trains to its end here";
  return absl::StrCat(NoSwapText(job, mode),
                      "trains to its end here, as it has no checkpoint.directory to move with; at "
                      "the deadline, or with mode now, it ",
                      Recovers(job) ? "recovers as from a failure" : StartText(job));
}

std::string TextOf(const DrainEffect& effect, const Job& job, DrainMode mode) {
  const std::string ranks = RanksText(effect.ranks);
  switch (effect.way) {
    case DrainWay::kSwap:
      return absl::StrCat(ranks, effect.ranks.size() == 1 ? " moves" : " move",
                          " while the job trains on");
    case DrainWay::kSaveAndRequeue:
      return absl::StrCat(NoSwapText(job, mode),
                          "saves a checkpoint, stops, and goes on from it elsewhere when there is "
                          "room");
    case DrainWay::kRequeue:
      return job.state == JobState::kStarting
                 ? "has not begun to train: starts elsewhere when there is room"
                 : absl::StrCat("stops at once and ", StartText(job),
                                " elsewhere when there is room");
    case DrainWay::kFinish:
      return FinishText(job, mode);
    case DrainWay::kEndRanks:
      return absl::StrCat(ranks, effect.ranks.size() == 1 ? " ends" : " end",
                          " at once, and the job recovers as from a failure");
  }
  return "";
}

}  // namespace

DrainEffect ChooseEffect(const Job& job, const NodeName& node, DrainMode mode) {
  DrainEffect effect;
  effect.job = job.request.id;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    if (job.ranks[r].slot.node == node) effect.ranks.push_back(static_cast<int>(r));
  }
  effect.way = ChooseWay(job, mode);
  effect.text = TextOf(effect, job, mode);
  return effect;
}

void NameSubstitutes(DrainEffect& effect, const std::vector<NodeName>& spares,
                     const std::vector<NodeName>& slots) {
  if (effect.ranks.empty()) return;
  std::vector<std::string> where;
  if (!spares.empty()) where.push_back(NodesText("a spare", spares));
  if (spares.size() > 1) where.back() = NodesText("spare", spares);
  if (!slots.empty()) {
    where.push_back(NodesText(slots.size() == 1 ? "a new trainer" : "new trainer", slots));
  }
  effect.missing = static_cast<int>(effect.ranks.size() - spares.size() - slots.size());
  effect.text = absl::StrCat(RanksText(effect.ranks), effect.ranks.size() == 1 ? " moves" : " move",
                             where.empty() ? "" : " to ", absl::StrJoin(where, " and "),
                             " while the job trains on");
  if (effect.missing > 0) {
    absl::StrAppend(&effect.text, "; there is no free slot for ", effect.missing, " of ",
                    effect.ranks.size(), " now: the drain waits for one");
  }
}

void NameSilence(DrainEffect& effect, const NodeName& node) {
  effect.text = absl::StrCat(RanksText(effect.ranks), effect.ranks.size() == 1 ? " does" : " do",
                             " not end yet: ", WhatSilenceWaitsFor(node));
}

DrainMode ModeOf(DrainWay way) {
  switch (way) {
    case DrainWay::kSwap:
      return DrainMode::kSwap;
    case DrainWay::kSaveAndRequeue:
      return DrainMode::kCheckpoint;
    case DrainWay::kFinish:
      return DrainMode::kFinish;
    case DrainWay::kRequeue:
    case DrainWay::kEndRanks:
      return DrainMode::kNow;
  }
  return DrainMode::kFinish;
}

}  // namespace paceline
