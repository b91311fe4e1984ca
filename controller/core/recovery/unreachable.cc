#include "controller/core/recovery/unreachable.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "controller/core/recovery/membership.h"

namespace paceline {
namespace {

// Since when others wait for the member's unreachable node; infinite: they do not.
absl::Time NeededSince(const Job& job, const RankState& member) {
  const bool recovering =
      job.state == JobState::kRecovering && member.report.membership.generation != job.generation;
  const absl::Time since = recovering
                               ? std::min(job.recovery.recovering_since, job.recovery.trouble_since)
                               : job.recovery.trouble_since;
  if (since == absl::InfiniteFuture()) return since;
  return std::max(since, member.unreachable_since);
}

// Whether it is probably the controller that is cut off, and not the nodes from each other.
bool IsCutOff(const Job& job, Moment now) {
  const bool unreachable =
      std::any_of(job.ranks.begin(), job.ranks.end(), [](const RankState& member) {
        return !HasEnded(member) && member.unreachable_since != absl::InfiniteFuture();
      });
  return unreachable && AreAllSilent(job, now);
}

}  // namespace

bool AreAllSilent(const Job& job, Moment now) {
  std::set<NodeName> nodes;
  for (const RankState& member : job.ranks) {
    if (HasEnded(member)) continue;
    const bool reachable = member.unreachable_since == absl::InfiniteFuture();
    if (reachable &&
        (member.heard == absl::InfinitePast() || now.steady < member.heard + kFreshness)) {
      return false;
    }
    nodes.insert(member.slot.node);
  }
  return nodes.size() > 1;
}

std::string WhatSilenceWaitsFor(const NodeName& node) {
  return absl::StrCat(
      "none of the job's nodes answers, and its ranks may train on with each other; this waits "
      "until one of the nodes answers again, or ",
      node.value(), ", if it is off for certain, is declared lost: paceline node lost ",
      node.value(), " --reason TEXT");
}

JobChange NoteWaitingDrain(Job& job, const NodeName& node, const std::string& why, Moment now) {
  const bool may_connect =
      std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankState& member) {
        return member.unreachable_since != absl::InfiniteFuture() &&
               member.unreachable_since > now.steady;
      });
  if (may_connect) return JobChange::kNone;
  const bool is_new = job.recovery.waiting_drains.emplace(node, why).second;
  return is_new ? JobChange::kProgress : JobChange::kNone;
}

void SetUnreachableNodes(Job& job, const std::set<NodeName>& unreachable, Moment now) {
  for (auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (RankState& trainer : *part) {
      if (unreachable.count(trainer.slot.node) == 0) {
        trainer.unreachable_since = absl::InfiniteFuture();
        trainer.node_lost.clear();
      } else if (trainer.unreachable_since == absl::InfiniteFuture()) {
        trainer.unreachable_since = now.steady;
      }
    }
  }
}

JobChange TakeLostNode(Job& job, const NodeName& node, const std::string& why, Moment now) {
  if (!HasMembers(job) || job.stop.has_value()) return LoseNode(job, node, why, now);
  for (auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (RankState& trainer : *part) {
      if (trainer.slot.node == node) trainer.node_lost = why;
    }
  }
  return JobChange::kNone;
}

void RestoreUnreachable(Job& job, Moment now) {
  for (auto* part : {&job.ranks, &job.spares, &job.leaving}) {
    for (RankState& trainer : *part) {
      trainer.unreachable_since = now.steady + kReconnectGrace;
      trainer.heard_wall = now.wall;  // It was heard of no later than now.
    }
  }
}

bool DoesUnreachableCount(Job& job, Moment now) {
  absl::Time& counts = job.recovery.unreachable_counts;
  if (IsCutOff(job, now)) {
    counts = absl::InfiniteFuture();
  } else if (counts == absl::InfiniteFuture()) {
    counts = now.steady + kReconnectGrace;
  }
  return now.steady >= counts;
}

JobChange LoseNodes(Job& job, Moment now) {
  std::map<NodeName, std::string> lost;
  for (const RankState* trainer : TrainersOf(job)) {
    if (!HasEnded(*trainer) && !trainer->node_lost.empty()) {
      lost.emplace(trainer->slot.node, trainer->node_lost);
    }
  }
  JobChange change = JobChange::kNone;
  for (const auto& [node, why] : lost) change = std::max(change, LoseNode(job, node, why, now));
  return change;
}

void GiveUpUnreachable(Job& job, Moment now) {
  for (RankState& member : job.ranks) {
    if (IsLost(member) || now.steady < UnreachableUntil(job, member)) continue;
    member.lost = absl::StrCat("node ", member.slot.node.value(),
                               " does not answer, and others wait for the rank");
  }
}

absl::Time UnreachableUntil(const Job& job, const RankState& member) {
  return NeededSince(job, member) + kEvidencePatience;
}

}  // namespace paceline
