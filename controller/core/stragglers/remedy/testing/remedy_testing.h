// A job with a policy for its stragglers, for tests.
#ifndef CONTROLLER_CORE_STRAGGLERS_REMEDY_TESTING_REMEDY_TESTING_H_
#define CONTROLLER_CORE_STRAGGLERS_REMEDY_TESTING_REMEDY_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "controller/core/stragglers/remedy/remedy_policy.h"

namespace paceline {

// 8 ranks on 8 nodes, with a spare and free slots; a step takes 0.1 s if nothing is slow.
class PolicyJob {
 public:
  explicit PolicyJob(StragglerMode mode, const RemedyOptions& options = {});

  PolicyJob(const PolicyJob&) = delete;
  PolicyJob& operator=(const PolicyJob&) = delete;

  // Plays this many steps, ten at a time, of `step_s` seconds each.
  void Train(int64_t steps, double step_s);

  void Wait(absl::Duration duration);

  VerdictReport Report(VerdictKind kind, int rank, double slowdown = 1.5) const;

  void Tell(const VerdictReport& report) { Take(policy->OnVerdict(report, facts, now)); }
  void Tell(VerdictKind kind, int rank, double slowdown = 1.5);

  void TellPlan(LadderAdvice advice, Ladder ladder, double step_s, Ladder current,
                double current_s);

  void TellStrategy(StrategyMove move, std::optional<SlipstreamMode> choice, double step_s,
                    std::optional<SlipstreamMode> current, double current_s);

  // The order was carried out by a new generation or plan.
  void Done(double paid_s = 0);
  void Failed(const std::string& error);
  void Apply(int64_t id) { Take(policy->Apply(id, "ann", facts, now)); }

  // Stops the controller, and starts it again with what was stored.
  void Restart(StragglerMode mode, const RemedyOptions& options = {});

  const RemedyDecision& Last() const { return policy->decisions().back(); }
  std::vector<RemedyDecision> Open() const;

  void Take(const RemedyActions& actions);

  RemedyFacts facts;
  RemedyNode there{1, 1, ""};  // For nodes that are not in `nodes`.
  std::map<NodeName, RemedyNode> nodes;
  Moment now{absl::UnixEpoch() + absl::Hours(5), absl::FromUnixSeconds(1700000000)};
  std::optional<RemedyPolicy> policy;
  int64_t order = 0;  // The order to be carried out; 0: none.
  int orders = 0;     // How many there were in all.
  std::map<int64_t, RemedyDecision> stored;
};

inline const Ladder kLadder = {{2, LadderScope::kSize, 2}, {8, LadderScope::kAll, 0}};

// Rank 5 has made the job's steps half as long again for 200 steps, and was found.
void AddStraggler(PolicyJob& job);

// Random stalls, and a ladder that cuts steps to two thirds.
void AddStalls(PolicyJob& job);

}  // namespace paceline

#endif  // CONTROLLER_CORE_STRAGGLERS_REMEDY_TESTING_REMEDY_TESTING_H_
