// Checks on random histories of a job with stragglers what must always hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "controller/core/stragglers/remedy/testing/remedy_testing.h"

namespace paceline {
namespace {

constexpr int kHistories = 400;
constexpr int kEvents = 300;

class History {
 public:
  explicit History(uint64_t seed) : random_(seed), job_(Mode()) {
    job_.facts.ranks = 4 + Below(12);
    job_.facts.min_ranks = Below(2) * 3;
    job_.facts.checked_spares = Below(4);
    job_.facts.has_ladder = Below(4) > 0;
  }

  void Run() {
    for (int event = 0; event < kEvents; ++event) {
      const int orders = job_.orders;
      before_ = job_.policy->decisions();
      by_person_ = false;
      Happen();
      ASSERT_LE(job_.orders, orders + 1);
      ASSERT_NO_FATAL_FAILURE(Check(job_.orders > orders));
    }
  }

  int orders() const { return job_.orders; }
  const std::map<DecisionState, int>& ends() const { return ends_; }

 private:
  int Below(int end) { return static_cast<int>(random_() % static_cast<uint64_t>(end)); }
  StragglerMode Mode() {
    const int mode = Below(6);
    return mode == 0   ? StragglerMode::kOff
           : mode == 1 ? StragglerMode::kAdvise
                       : StragglerMode::kAuto;
  }
  int Rank() { return Below(job_.facts.ranks); }

  void Happen() {
    const int kind = Below(100);
    if (kind < 40) return Train();
    if (kind < 55) return TellVerdict();
    if (kind < 65) return TellLadder();
    if (kind < 78) return EndOrder();
    if (kind < 84) return job_.Wait(absl::Seconds(Below(200)));
    if (kind < 88) return ApplySome();
    if (kind < 92) return ChangeFacts();
    if (kind < 94) return ChangeMembership();
    if (kind < 95) {
      job_.facts.plan_version =
          PlanVersion(job_.facts.plan_version.value() + 1);  // A person changes the plan.
      persistent_.clear();
      return job_.Wait(absl::Seconds(1));
    }
    if (kind < 97) {
      return job_.Take(job_.policy->SetMode(Mode(), job_.facts, job_.now));
    }
    if (kind < 98) {
      job_.Restart(job_.policy->mode());
      persistent_.clear();
      ladder_given_ = absl::InfinitePast();  // After a restart, that time means nothing.
      return;
    }
    Lie();
  }

  void Train() {
    const bool slow = !persistent_.empty() || Below(4) == 0;
    job_.Train(10 + Below(200), (slow ? 0.15 : 0.1) * (1 + 0.01 * Below(20)));
  }

  void TellVerdict() {
    const VerdictKind kinds[] = {VerdictKind::kSuspect,    VerdictKind::kTransient,
                                 VerdictKind::kPersistent, VerdictKind::kPersistent,
                                 VerdictKind::kRecovered,  VerdictKind::kNode,
                                 VerdictKind::kGroup};
    const VerdictKind kind = kinds[Below(7)];
    VerdictReport report = job_.Report(kind, Rank(), 1.05 + 0.1 * Below(10));
    report.verdict.episodes = 1 + Below(4);
    report.verdict.cause = static_cast<StragglerCause>(Below(5));
    if (kind == VerdictKind::kNode) {
      report.verdict.rank = -1;
    } else if (kind == VerdictKind::kGroup) {
      report.verdict.rank = report.verdict.node = -1;
    } else if (kind == VerdictKind::kPersistent) {
      persistent_.insert(report.verdict.rank);
    } else if (kind != VerdictKind::kSuspect) {
      persistent_.erase(report.verdict.rank);
    }
    job_.Tell(report);
  }

  void TellLadder() {
    const LadderAdvice advices[] = {LadderAdvice::kKeep, LadderAdvice::kChange,
                                    LadderAdvice::kChange, LadderAdvice::kSynchronous};
    job_.TellPlan(advices[Below(4)], {{int64_t{2} << Below(3), LadderScope::kAll, 0}},
                  0.05 + 0.01 * Below(8), {}, 0.12);
  }

  void EndOrder() {
    if (job_.order == 0) return;
    if (job_.policy->Find(job_.order)->state != DecisionState::kOrdered) {
      job_.order = 0;  // It took too long.
      return;
    }
    if (Below(4) == 0) {
      job_.Failed("half-way");
    } else {
      persistent_.clear();
      job_.Done(0.1 * Below(20));
    }
    job_.facts.checked_spares = std::max(job_.facts.checked_spares, Below(4));
    job_.facts.ranks = std::max(job_.facts.ranks, 4);
  }

  void ApplySome() {
    const auto& decisions = job_.policy->decisions();
    if (decisions.empty()) return;
    const int64_t id = decisions[static_cast<size_t>(Below(static_cast<int>(decisions.size())))].id;
    if (job_.policy->RefuseApply(id, job_.facts).has_value()) return;
    by_person_ = true;
    job_.Apply(id);
  }

  void ChangeFacts() {
    job_.facts.brake = Below(4) == 0 ? "paused" : "";
    job_.facts.running = Below(6) > 0;
    job_.facts.plan_pending = Below(4) == 0;
    job_.facts.recovers = Below(6) > 0;
    job_.facts.checked_spares = Below(4);
    job_.there = {1 + Below(2), Below(3), Below(4) == 0 ? "held" : ""};
    job_.Wait(absl::Seconds(1));
  }

  void ChangeMembership() {
    job_.facts.generation = Generation(job_.facts.generation.value() + 1);
    persistent_.clear();
    job_.Wait(absl::Seconds(1));
  }

  // Sends reports that must change nothing.
  void Lie() {
    const auto ignored = job_.policy->ignored();
    VerdictReport report = job_.Report(VerdictKind::kPersistent, Rank(), 3);
    switch (Below(4)) {
      case 0:
        report.generation = Generation(job_.facts.generation.value() - 1);
        break;
      case 1:
        report.plan_version = PlanVersion(job_.facts.plan_version.value() + 1);
        break;
      case 2:
        report.masked = true;
        break;
      default:
        report.verdict.lost_share = std::nan("");
    }
    job_.Tell(report);
    ASSERT_EQ(job_.policy->ignored(), ignored + 1);
  }

  void Check(bool ordered) {
    const auto& decisions = job_.policy->decisions();
    int in_flight = 0;
    int checked = 0;
    int64_t last = 0;
    for (const RemedyDecision& d : decisions) {
      in_flight += IsInFlight(d) ? 1 : 0;
      checked += IsChecked(d) ? 1 : 0;
      ASSERT_GT(d.id, last) << "ids ascend";
      last = d.id;
      CheckDecision(d);
    }
    ASSERT_LE(in_flight + checked, 1) << "one at a time";
    ASSERT_GE(last, last_id_);
    last_id_ = last;
    CheckStored();
    if (ordered) CheckOrder(*job_.policy->Find(job_.order));
  }

  void CheckDecision(const RemedyDecision& d) {
    if (IsOpenAdvice(d)) {
      if (!OutlivesGenerations(d)) {
        ASSERT_EQ(d.generation, job_.facts.generation) << "advice of an old generation";
        ASSERT_EQ(d.plan_version, job_.facts.plan_version);
      }
      ASSERT_NE(job_.policy->mode(), StragglerMode::kOff);
      ASSERT_FALSE(d.reason.empty());
    }
    if (d.state == DecisionState::kDidNotHelp && d.kind == RemedyKind::kLadder &&
        StateBefore(d.id) == DecisionState::kChecking &&
        job_.policy->mode() != StragglerMode::kOff) {
      const auto& all = job_.policy->decisions();
      ASSERT_TRUE(std::any_of(all.begin(), all.end(), [&](const auto& u) {
        return u.undoes == d.id;
      })) << "a ladder that did not help is taken back";
    }
    if (StateBefore(d.id) != d.state) ++ends_[d.state];
  }

  void CheckStored() {
    const auto& decisions = job_.policy->decisions();
    ASSERT_EQ(job_.stored.size(), decisions.size());
    for (const RemedyDecision& d : decisions) {
      ASSERT_EQ(job_.stored.at(d.id).state, d.state) << "stored as it is";
      ASSERT_EQ(job_.stored.at(d.id).outcome, d.outcome);
    }
  }

  void CheckOrder(const RemedyDecision& d) {
    ASSERT_EQ(d.state, DecisionState::kOrdered);
    ASSERT_FALSE(IsForPeople(d.kind));
    ASSERT_TRUE(job_.facts.running);
    ASSERT_EQ(d.automatic, !by_person_);
    if (d.kind == RemedyKind::kHotSwap) {
      ASSERT_GE(job_.facts.checked_spares, 1);
    }
    if (d.kind == RemedyKind::kLadder) {
      ASSERT_TRUE(job_.facts.has_ladder && !job_.facts.plan_pending);
    }
    if (d.rank >= 0 && d.undoes == 0) {
      ASSERT_EQ(persistent_.count(d.rank), 1u) << "the rank is well";
    }
    if (d.undoes == 0) CheckNotRepeated(d);
    if (d.automatic) CheckBrakes(d);
    if (d.kind == RemedyKind::kLadder) ladder_given_ = job_.now.steady;
  }

  void CheckBrakes(const RemedyDecision& d) {
    ASSERT_EQ(job_.policy->mode(), StragglerMode::kAuto);
    ASSERT_TRUE(job_.facts.brake.empty());
    if (d.kind == RemedyKind::kDrain && d.undoes == 0) {
      ASSERT_TRUE(job_.there.brake.empty());
    }
    if (d.undoes > 0) return;
    for (const RemedyDecision& other : before_) {
      ASSERT_FALSE(IsInFlight(other) && job_.policy->Find(other.id)->state == other.state);
      const bool ended =
          other.state == DecisionState::kFailed || other.state == DecisionState::kDidNotHelp;
      if (ended && other.undoes == 0) {
        ASSERT_GE(job_.now.steady - other.since, absl::Minutes(1)) << "cool-down";
      }
    }
    if (d.kind == RemedyKind::kLadder) {
      ASSERT_GE(job_.now.steady - ladder_given_, absl::Minutes(10)) << "one per window";
    }
  }

  void CheckNotRepeated(const RemedyDecision& d) {
    for (const RemedyDecision& other : before_) {
      const bool bad =
          other.state == DecisionState::kFailed || other.state == DecisionState::kDidNotHelp;
      const bool same = other.kind == d.kind && other.rank == d.rank && other.node == d.node;
      if (bad && same && other.undoes == 0) {
        ASSERT_GE(job_.now.steady - other.since, absl::Hours(1)) << "repeated blindly";
      }
    }
  }

  DecisionState StateBefore(int64_t id) const {
    for (const RemedyDecision& d : before_) {
      if (d.id == id) return d.state;
    }
    return DecisionState::kAdvised;
  }

  std::mt19937_64 random_;
  PolicyJob job_;
  std::set<int> persistent_;  // Ranks reported as slow.
  std::vector<RemedyDecision> before_;
  absl::Time ladder_given_ = absl::InfinitePast();
  int64_t last_id_ = 0;
  bool by_person_ = false;
  std::map<DecisionState, int> ends_;
};

TEST(RemedyRandomTest, InvariantsHoldInEveryHistory) {
  int orders = 0;
  std::map<DecisionState, int> ends;
  for (uint64_t seed = 1; seed <= kHistories; ++seed) {
    SCOPED_TRACE(seed);
    History history(seed);
    ASSERT_NO_FATAL_FAILURE(history.Run());
    orders += history.orders();
    for (const auto& [state, count] : history.ends()) ends[state] += count;
  }
  // The histories must contain enough of each.
  EXPECT_GT(orders, 2 * kHistories);
  for (const auto state :
       {DecisionState::kHelped, DecisionState::kDidNotHelp, DecisionState::kUnchecked,
        DecisionState::kFailed, DecisionState::kWithdrawn, DecisionState::kDone}) {
    EXPECT_GT(ends[state], 50) << NameOf(state);
  }
}

}  // namespace
}  // namespace paceline
