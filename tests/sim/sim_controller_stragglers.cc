// What the controller does about stragglers, as ControlLoop does.
#include <utility>

#include "controller/store/records.h"
#include "controller/wire/convert_plan.h"
#include "tests/sim/sim_controller.h"
#include "tests/sim/straggler_judge.h"
#include "tests/sim/straggler_options.h"

namespace paceline::sim {

void SimController::RestoreStragglers(std::map<JobId, std::vector<RemedyDecision>> decisions) {
  world_.straggler_judge->OnRestored(stored_, decisions);
  stragglers_.emplace(ShortHistoryOptions(), WithLadder, StrategyOf);
  Carry({}, Judged(stragglers_->Restore(std::move(decisions), *cluster_, Now())), nullptr);
}

StragglerActions SimController::Follow(const Actions& stepped) {
  return Judged(stragglers_->Follow(*cluster_, stepped, Now()));
}

StragglerActions SimController::Judged(StragglerActions decided) {
  world_.straggler_judge->OnDecided(*cluster_, *stragglers_, decided);
  return decided;
}

void SimController::OnSteps(const NodeName& node, const TrainerId& trainer,
                            const std::vector<StepTimes>& steps) {
  if (!is_up()) return;
  StragglerActions decided = Judged(stragglers_->TakeSteps(*cluster_, node, trainer, steps, Now()));
  if (!decided.empty()) Carry({}, std::move(decided), nullptr);
}

std::optional<Refusal> SimController::RefuseAdvice(const JobId& job, int64_t advice) {
  return stragglers_->RefuseApply(*cluster_, job, advice);
}

void SimController::ApplyAdvice(const JobId& job, int64_t advice, const std::string& by) {
  Carry({}, Judged(stragglers_->Apply(*cluster_, job, advice, by, Now())), nullptr);
}

void SimController::PutDecisions(const StragglerActions& decided, Batch& batch) {
  for (const StragglerActions::Key& key : decided.store) {
    const RemedyDecision& decision = *stragglers_->Find(key.first)->policy().Find(key.second);
    batch.puts.decisions[key] = std::make_shared<const RemedyDecision>(decision);
    world_.trace.Add(key.first.value(), ": decision ", key.second, " (", DescribeRemedy(decision),
                     ") is ", NameOf(decision.state), ": ",
                     decision.outcome.empty() ? decision.reason : decision.outcome);
    if (!world_.settings.encoded) continue;
    batch.encoded.puts[DecisionKey(key.first, key.second)] = EncodeDecision(decision);
  }
  for (const StragglerActions::Key& key : decided.forget) {
    batch.forgotten.push_back(key);
    if (!world_.settings.encoded) continue;
    batch.encoded.deletes.push_back(DecisionKey(key.first, key.second));
  }
}

}  // namespace paceline::sim
