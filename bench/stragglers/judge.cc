#include "bench/stragglers/judge.h"

#include <algorithm>

namespace paceline::detect {
namespace {

constexpr double kMany = 0.25;           // Of a peer group.
constexpr double kStageImbalance = 1.1;  // GROUP is right from here on.

bool Active(const Fault& fault, int64_t step) {
  return step >= fault.begin && step < fault.end + kGrace;
}

bool SameCause(FaultCause truth, StragglerCause reported) {
  switch (truth) {
    case FaultCause::kData:
      return reported == StragglerCause::kData;
    case FaultCause::kPause:
      return reported == StragglerCause::kHostPause;
    default:
      return reported == StragglerCause::kCompute;
  }
}

}  // namespace

Judge::Judge(const HistorySpec& spec, const std::vector<Fault>& faults,
             const std::vector<DetectorRank>& ranks)
    : spec_(spec), faults_(faults), ranks_(ranks), heard_(faults.size()) {}

bool Judge::Touches(const Fault& fault, const Verdict& verdict) const {
  if (verdict.rank >= 0) return fault.Covers(verdict.rank);
  return std::any_of(fault.ranks.begin(), fault.ranks.end(), [&](int rank) {
    const DetectorRank& place = ranks_[static_cast<size_t>(rank)];
    return verdict.kind == VerdictKind::kGroup ? place.peer_group == verdict.peer_group
                                               : place.node == verdict.node;
  });
}

void Judge::Hear(const Verdict& verdict, int64_t now) {
  switch (verdict.kind) {
    case VerdictKind::kSuspect:
      return HearSuspect(verdict, now);
    case VerdictKind::kPersistent:
    case VerdictKind::kNode:
      return HearDrain(verdict, now);
    case VerdictKind::kGroup:
      return HearGroup(verdict, now);
    case VerdictKind::kTransient:
    case VerdictKind::kRecovered:
      return HearEnd(verdict);
  }
}

void Judge::HearAlarm(int rank, int64_t now) {
  Verdict verdict;
  verdict.rank = rank;
  verdict.step = now;
  HearSuspect(verdict, now);
  verdict.kind = VerdictKind::kPersistent;
  HearDrain(verdict, now);
}

void Judge::HearSuspect(const Verdict& verdict, int64_t now) {
  bool right = false;
  for (size_t f = 0; f < faults_.size(); ++f) {
    const Fault& fault = faults_[f];
    const bool of_some = fault.of_few() || fault.scope == Scope::kGroup;
    if (!of_some || fault.shape == Shape::kOneOff || !Active(fault, verdict.step) ||
        !Touches(fault, verdict)) {
      continue;
    }
    right = true;
    if (fault.lasting && fault.of_few()) {
      ++figures_.causes;
      if (SameCause(fault.cause, verdict.cause)) ++figures_.causes_right;
    }
    if (fault.of_few() && heard_[f].suspect < 0) heard_[f].suspect = now;
  }
  ++(right ? figures_.right_suspects : figures_.wrong_suspects);
}

void Judge::HearDrain(const Verdict& verdict, int64_t now) {
  std::vector<size_t> lasting;
  std::vector<size_t> transient;
  for (size_t f = 0; f < faults_.size(); ++f) {
    const Fault& fault = faults_[f];
    if (!fault.of_few() || !Active(fault, verdict.step) || !Touches(fault, verdict)) continue;
    (fault.lasting ? lasting : transient).push_back(f);
  }
  if (lasting.empty()) ++figures_.wrong_drains;
  if (lasting.size() == 1) HearInterval(faults_[lasting[0]], verdict);
  for (const size_t f : lasting.empty() ? transient : lasting) {
    if (heard_[f].drain < 0) heard_[f].drain = now;
    if (heard_[f].suspect < 0) heard_[f].suspect = now;
  }
}

void Judge::HearInterval(const Fault& fault, const Verdict& verdict) {
  const bool same_quantity =
      (fault.cause == FaultCause::kData) == (verdict.cause == StragglerCause::kData);
  if (verdict.kind != VerdictKind::kPersistent || fault.shape != Shape::kStep || !same_quantity) {
    return;
  }
  const double slowdown = fault.SlowdownOf(verdict.rank);
  ++figures_.intervals;
  if (slowdown >= verdict.slowdown_low && slowdown <= verdict.slowdown_high) {
    ++figures_.intervals_right;
  }
}

void Judge::HearEnd(const Verdict& verdict) {
  figures_.wrong_ends += std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
    return fault.lasting && fault.of_few() && fault.shape != Shape::kIntermittent &&
           verdict.step >= fault.begin && fault.Covers(verdict.rank);
  });
}

void Judge::HearGroup(const Verdict& verdict, int64_t now) {
  bool right = spec_.stages > 1 && verdict.peer_group == spec_.stages - 1 &&
               spec_.last_stage >= kStageImbalance && verdict.cause == StragglerCause::kImbalance;
  for (size_t f = 0; f < faults_.size(); ++f) {
    const Fault& fault = faults_[f];
    if (fault.of_few() || fault.shape == Shape::kOneOff || !Active(fault, verdict.step) ||
        !Touches(fault, verdict)) {
      continue;
    }
    right = true;
    if (heard_[f].suspect < 0 && verdict.cause != StragglerCause::kImbalance) {
      heard_[f].suspect = now;
    }
  }
  if (!right && !ManyAreSlow(verdict.peer_group, verdict.step)) ++figures_.wrong_groups;
}

bool Judge::ManyAreSlow(int peer_group, int64_t step) const {
  int slow = 0;
  int all = 0;
  for (size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].peer_group != peer_group) continue;
    ++all;
    slow += std::any_of(faults_.begin(), faults_.end(), [&](const Fault& fault) {
      return Active(fault, step) && fault.Covers(static_cast<int>(rank));
    });
  }
  return slow > kMany * all;
}

Figures Judge::Sum(int64_t rank_steps) const {
  Figures sum = figures_;
  sum.histories = 1;
  sum.rank_steps = rank_steps;
  for (size_t f = 0; f < faults_.size(); ++f) {
    const Fault& fault = faults_[f];
    if (fault.shape == Shape::kOneOff) continue;
    const bool found = heard_[f].suspect >= 0;
    if (fault.lasting) {
      ++sum.positives;
      if (found) ++sum.found, sum.to_suspect.Add(heard_[f].suspect - fault.begin + 1);
      if (heard_[f].drain >= 0) sum.to_persistent.Add(heard_[f].drain - fault.begin + 1);
    } else if (fault.end - fault.begin >= kFindable) {
      ++sum.transients;
      if (found) ++sum.transients_found;
    }
    if (found && fault.of_few()) {
      ++sum.classed;
      if ((heard_[f].drain >= 0) == fault.lasting) ++sum.classed_right;
    }
  }
  return sum;
}

}  // namespace paceline::detect
